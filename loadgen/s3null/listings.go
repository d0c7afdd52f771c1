package s3null

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// A folder of keys can be listed although it was never written, if its name describes its keys like the names of
// storelab's data sets: `…/keys-100B-1000x1-depth2/keys/` has 1000 keys of 100 B in each bucket, below two levels of
// folders (docs/listings.md).
var keysNamed = regexp.MustCompile(`(?:^|/)keys-(\d{1,15})([kMGTP]?i?B)-(\d{1,7})x\d+(?:-depth(\d))?(?:-a\d+)?/keys/$`)

var units = map[string]int64{
	"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
}

const mostListed = 1000 // maximum number of keys of a page

type folder struct {
	keys, depth, digits int
	size                string
}

// folderOf returns the folder of a prefix. It has no keys if the prefix does not describe a folder.
func folderOf(prefix string) folder {
	match := keysNamed.FindStringSubmatch(prefix)
	if match == nil || units[match[2]] == 0 {
		return folder{}
	}
	size, _ := strconv.ParseInt(match[1], 10, 64)
	f := folder{size: strconv.FormatInt(size*units[match[2]], 10)}
	f.keys, _ = strconv.Atoi(match[3])
	f.depth, _ = strconv.Atoi(match[4])
	f.digits = len(strconv.Itoa(max(0, f.keys-1)))
	if f.keys == 0 || f.depth >= f.digits {
		return folder{}
	}
	return f
}

// append adds the name of key n below the folder.
func (f folder) append(out []byte, n int) []byte {
	digits := strconv.Itoa(n)
	digits = strings.Repeat("0", f.digits-len(digits)) + digits
	for i := range f.depth {
		out = append(out, digits[i], '/')
	}
	return append(out, digits...)
}

// list answers with a page of ListObjectsV2. The token of the next page is the number of its first key.
func list(ctx *fasthttp.RequestCtx, bucket string) {
	args := ctx.QueryArgs()
	prefix := string(args.Peek("prefix"))
	f := folderOf(prefix)
	first, _ := strconv.Atoi(string(args.Peek("continuation-token")))
	most := mostListed
	if asked, err := strconv.Atoi(string(args.Peek("max-keys"))); err == nil {
		most = min(most, max(0, asked))
	}
	first = max(0, min(first, f.keys))
	end := min(first+most, f.keys)
	out := make([]byte, 0, 1024+(end-first)*(200+len(prefix)))
	out = append(append(append(out, header...), "<ListBucketResult"+namespace+"><Name>"...), quoted(bucket)...)
	out = append(append(append(out, "</Name><Prefix>"...), quoted(prefix)...), "</Prefix><KeyCount>"...)
	out = append(strconv.AppendInt(out, int64(end-first), 10), "</KeyCount><MaxKeys>"...)
	out = append(strconv.AppendInt(out, int64(most), 10), "</MaxKeys><IsTruncated>"...)
	out = append(strconv.AppendBool(out, end < f.keys), "</IsTruncated>"...)
	if end < f.keys {
		out = append(out, "<NextContinuationToken>"...)
		out = append(strconv.AppendInt(out, int64(end), 10), "</NextContinuationToken>"...)
	}
	quotedPrefix := quoted(prefix)
	for n := first; n < end; n++ {
		out = f.append(append(append(out, "<Contents><Key>"...), quotedPrefix...), n)
		out = append(append(append(out, "</Key><LastModified>2015-04-13T00:00:00.000Z</LastModified><ETag>"...), listedTag...), "</ETag><Size>"...)
		out = append(append(out, f.size...), "</Size><StorageClass>STANDARD</StorageClass></Contents>"...)
	}
	ctx.Response.Header.Set("Content-Type", "application/xml")
	ctx.SetBody(append(out, "</ListBucketResult>"...))
}

var listedTag = quoted(etag)
