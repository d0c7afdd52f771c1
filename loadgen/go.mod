// storelab's own Go programs, in cmd/: the load generator (loadgen), the near-null S3 server of the calibration (nullserver) and the shaped
// link of the testbed (linkproxy). `storelab install loadgen` builds them; go.sum pins the hash of every module they use.
// To update a module, change its version in a `require` line, then run `go mod tidy`.
module storelab/loadgen

go 1.25.0

require (
	github.com/aws/aws-sdk-go-v2 v1.47.7
	github.com/parquet-go/parquet-go v0.32.0
	github.com/valyala/fasthttp v1.73.0
)

require (
	github.com/andybalholm/brotli v1.2.2 // indirect
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.1 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.21 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.34.2 // indirect
)
