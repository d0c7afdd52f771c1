// What storelab builds itself in Go: the near-null S3 server of the calibration. `storelab install loadgen` builds it; go.sum pins the
// hash of every module in it. A new version: change it in the `require` line, `go mod tidy`.
module storelab/loadgen

go 1.25.0

require github.com/valyala/fasthttp v1.73.0

require (
	github.com/andybalholm/brotli v1.2.2 // indirect
	github.com/klauspost/compress v1.19.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
)
