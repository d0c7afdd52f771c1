// Package job describes one run of loadgen: one JSON object, which is checked completely before the run.
package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Schema is the version of the jobs that this program reads.
const Schema = 1

// S3 operations of a job, with their names in the records.
const (
	Put      = "PUT"
	Get      = "GET"
	GetRange = "GET_RANGE"
	Head     = "HEAD"
	Delete   = "DELETE"
	Multi    = "DELETE_MULTI"
	List     = "LIST"
)

// All lists all operations.
var All = []string{Put, Get, GetRange, Head, Delete, Multi, List}

// Job is one run. Sizes are in bytes, times in UTC nanoseconds unless their names have another unit. Omitted fields are
// zero.
type Job struct {
	Schema    int        `json:"schema"`
	Endpoints []Endpoint `json:"endpoints"`
	// "worker" (default): a worker uses one endpoint; "round_robin", "least_load": an endpoint is chosen for each operation.
	Balance    string      `json:"balance"`
	Buckets    []string    `json:"buckets"`
	Operations []Operation `json:"operations"`
	Objects    Objects     `json:"objects"`     // the objects to read or delete
	Once       bool        `json:"once"`        // GET, GET_RANGE, HEAD: each object is read once, by one worker; then the run ends
	ObjectSize int64       `json:"object_size"` // size of every object that is uploaded or read
	Bodies     []string    `json:"bodies"`      // files (on tmpfs) with the contents; body i is file i
	Uploads    []Upload    `json:"uploads"`     // places of uploads, used in turn
	FirstPut   int         `json:"first_put"`   // number of the place of the first upload
	Range      Range       `json:"range"`
	Batch      int         `json:"batch"` // number of objects of a DELETE_MULTI
	ListPrefix string      `json:"list_prefix"`
	Lists      []Upload    `json:"lists"`     // LIST: whole folders in turn, with a check of each key; empty: pages of list_prefix
	ListKeys   int         `json:"list_keys"` // number of keys of each folder; their sizes are object_size
	ListDepth  int         `json:"list_depth"`
	PageSize   int         `json:"page_size"` // max-keys of a page; 0: the server's default
	PartSize   int64       `json:"part_size"` // larger objects are transferred in parts; 0: always in one request
	Parallel   int         `json:"parallel_parts"`
	Payload    string      `json:"payload"` // "unsigned" (default) or "sha256": the client hashes what it uploads
	Workers    int         `json:"workers"`
	Threads    int         `json:"threads"` // maximum number of threads that run at the same time; 0: number of cores
	StartNs    int64       `json:"start_ns"`
	DeadlineNs int64       `json:"deadline_ns"` // if both are 0, a second line has them: {"start_ns": …, "deadline_ns": …}
	Rate       float64     `json:"rate"`        // open loop: operations due per second; 0: closed loop
	RateFirst  int64       `json:"rate_first"`  // this run does the operations rate_first, rate_first + rate_stride, …
	RateStride int64       `json:"rate_stride"`
	Seed       uint64      `json:"seed"`
	Verify     int         `json:"verify"`    // n: the first and every nth answer are compared with their bodies; 0: none
	TimeoutS   float64     `json:"timeout_s"` // time-out for a server that sends nothing
	DrainS     float64     `json:"drain_s"`   // time for operations in flight at the deadline
	Client     int         `json:"client"`
	MostSingle int         `json:"most_single"` // maximum number of operations that are recorded singly; with more, bins are recorded
	BinNs      int64       `json:"bin_ns"`      // width of a bin; 0: 100 ms
	Records    string      `json:"records"`     // Parquet file to write
	Ledger     string      `json:"ledger"`      // file with a header, to which writes are appended; "": none
	Rewrite    *Rewrite    `json:"rewrite"`     // PUT and DELETE over a bounded set of keys
	Arrivals   string      `json:"arrivals"`    // of an open loop: "even" (default) or "poisson"
	Population *Population `json:"population"`  // only for a mix: operations on objects that are created and deleted
	Sizes      *Sizes      `json:"sizes"`       // sizes of the objects that a mix uploads
}

// Endpoint is one front-end.
type Endpoint struct {
	URL        string `json:"url"`
	Region     string `json:"region"`
	Addressing string `json:"addressing"` // "path" or "virtual"
	Verify     bool   `json:"verify"`     // whether the certificate is verified (https)
	CAFile     string `json:"ca_file"`
}

// Operation is one part of the mix.
type Operation struct {
	Op    string  `json:"op"`
	Share float64 `json:"share"` // share of the operations; 0 means 1
}

// Objects are columns of equal length: key (with the bucket's prefix), index of the bucket, index of the body. Size is
// the number of bytes of the body that PUT uploads.
type Objects struct {
	Key    []string `json:"key"`
	Bucket []int    `json:"bucket"`
	Body   []int    `json:"body"`
	Size   []int64  `json:"size"`
}

// Upload is a place of uploads: the key of upload n is prefix + n in eight digits. For listings it is a folder.
type Upload struct {
	Bucket int    `json:"bucket"`
	Prefix string `json:"prefix"`
}

// Rewrite describes a bounded set of keys for each worker, which creates, overwrites and deletes them.
type Rewrite struct {
	Keys    int     `json:"keys"`    // maximum number of keys that exist at the same time, for each worker
	Deletes float64 `json:"deletes"` // share of deletions among the operations on existing objects
	Stamp   []byte  `json:"stamp"`   // base64: the first bytes of every object, before the number of its key and its generation
}

// StampSize is the number of bytes at the beginning of a rewritten object that identify its write.
const StampSize = 24

// Range describes the ranges of GET_RANGE.
type Range struct {
	Length int64  `json:"length"`
	Offset string `json:"offset"` // "random", "sequential" (default), or bytes
}

// Fixed returns the offset in bytes; 0 for "random" and "sequential".
func (r Range) Fixed() int64 {
	n, _ := strconv.ParseInt(r.Offset, 10, 64)
	return n
}

// Parse reads one job. An error is one line with field, value and hint.
func Parse(data []byte) (*Job, error) {
	job := &Job{Parallel: 1, Batch: 1, RateStride: 1, TimeoutS: 30, DrainS: 5, MostSingle: 5_000_000}
	if err := strict(data, job); err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	if err := job.check(); err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	return job, nil
}

// Times reads the second line. An error is one line.
func (j *Job) Times(data []byte) error {
	var times struct {
		StartNs    int64 `json:"start_ns"`
		DeadlineNs int64 `json:"deadline_ns"`
	}
	if err := strict(data, &times); err != nil {
		return fmt.Errorf("times: %w", err)
	}
	j.StartNs, j.DeadlineNs = times.StartNs, times.DeadlineNs
	return j.checkTimes()
}

// MostListed is the maximum number of keys of a folder with a checked listing.
const MostListed = 1_000_000

// ListDigits is the number of digits in the name of each key of such a folder.
func (j *Job) ListDigits() int { return len(strconv.Itoa(max(0, j.ListKeys-1))) }

// Ends returns the time after which operations in flight at the deadline are aborted, in UTC ns.
func (j *Job) Ends() int64 { return j.DeadlineNs + int64(j.DrainS*1e9) }

func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("no JSON of schema %d: %w", Schema, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("no JSON of schema %d: more than one object in a line", Schema)
	}
	return nil
}

// Has returns whether the mix has an operation.
func (j *Job) Has(ops ...string) bool {
	return slices.ContainsFunc(j.Operations, func(o Operation) bool { return slices.Contains(ops, o.Op) })
}

func (j *Job) check() error {
	bad := func(field string, value any, hint string) error { return fmt.Errorf("%s = %v: %s", field, value, hint) }
	switch {
	case j.Schema != Schema:
		return bad("schema", j.Schema, fmt.Sprintf("this program reads schema %d", Schema))
	case len(j.Endpoints) == 0:
		return bad("endpoints", "[]", "give at least one")
	case len(j.Buckets) == 0:
		return bad("buckets", "[]", "give at least one")
	case len(j.Operations) == 0:
		return bad("operations", "[]", "give at least one of "+strings.Join(All, ", "))
	case j.Workers < 1:
		return bad("workers", j.Workers, "at least 1")
	case j.Workers > 32767:
		return bad("workers", j.Workers, "at most 32767")
	case j.Threads < 0:
		return bad("threads", j.Threads, "at least 0")
	case j.Records == "":
		return bad("records", `""`, "name the file to write")
	case j.ObjectSize < 0:
		return bad("object_size", j.ObjectSize, "at least 0 B")
	case j.Parallel < 1:
		return bad("parallel_parts", j.Parallel, "at least 1")
	case j.PartSize < 0:
		return bad("part_size", j.PartSize, "at least 0 B")
	case j.PartSize > 0 && (j.ObjectSize-1)/j.PartSize >= 10000 && j.Has(Put):
		return bad("part_size", j.PartSize, "an upload has at most 10000 parts")
	case j.Batch < 1 || j.Batch > 1000:
		return bad("batch", j.Batch, "1 to 1000 objects in a request")
	case j.PageSize < 0 || j.PageSize > 1000:
		return bad("page_size", j.PageSize, "1 to 1000 keys in a page; 0: as the server does")
	case len(j.Lists) > 0 && (j.ListKeys < 1 || j.ListKeys > MostListed):
		return bad("list_keys", j.ListKeys, fmt.Sprint("1 to ", MostListed))
	case len(j.Lists) > 0 && (j.ListDepth < 0 || j.ListDepth >= j.ListDigits()):
		return bad("list_depth", j.ListDepth, fmt.Sprint("less than the digits of the last key's number, ", j.ListDigits()))
	case j.Rate < 0 || j.RateFirst < 0 || j.RateStride < 1:
		return bad("rate", j.Rate, "rate and rate_first at least 0, rate_stride at least 1")
	case j.Verify < 0:
		return bad("verify", j.Verify, "at least 0")
	case j.TimeoutS <= 0 || j.DrainS < 0:
		return bad("timeout_s, drain_s", fmt.Sprint(j.TimeoutS, ", ", j.DrainS), "more than 0 s, at least 0 s")
	case j.MostSingle < 1:
		return bad("most_single", j.MostSingle, "at least 1")
	case j.BinNs != 0 && j.BinNs < 1_000_000:
		return bad("bin_ns", j.BinNs, "at least 1 ms, 1000000; 0: 100 ms")
	}
	if j.Payload == "" {
		j.Payload = "unsigned"
	}
	if j.Balance == "" {
		j.Balance = "worker"
	}
	if !slices.Contains([]string{"unsigned", "sha256"}, j.Payload) {
		return bad("payload", j.Payload, "unsigned or sha256")
	}
	if !slices.Contains([]string{"worker", "round_robin", "least_load"}, j.Balance) {
		return bad("balance", j.Balance, "worker, round_robin or least_load")
	}
	for i, e := range j.Endpoints {
		at, err := url.Parse(e.URL)
		if err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" || strings.Trim(at.Path, "/") != "" {
			return bad(fmt.Sprintf("endpoints[%d].url", i), e.URL, "http(s)://host[:port]")
		}
		if e.Addressing != "path" && e.Addressing != "virtual" {
			return bad(fmt.Sprintf("endpoints[%d].addressing", i), e.Addressing, "path or virtual")
		}
		if e.Region == "" {
			return bad(fmt.Sprintf("endpoints[%d].region", i), `""`, "name one, e.g. us-east-1")
		}
	}
	for i, o := range j.Operations {
		if !slices.Contains(All, o.Op) {
			return bad(fmt.Sprintf("operations[%d].op", i), o.Op, "one of "+strings.Join(All, ", "))
		}
		if o.Share < 0 {
			return bad(fmt.Sprintf("operations[%d].share", i), o.Share, "at least 0")
		}
		if o.Share == 0 {
			j.Operations[i].Share = 1
		}
	}
	if err := j.checkObjects(); err != nil {
		return err
	}
	if err := j.checkMix(); err != nil {
		return err
	}
	if j.Has(GetRange) {
		if err := j.checkRange(); err != nil {
			return err
		}
	}
	if j.Rewrite != nil {
		if err := j.checkRewrite(); err != nil {
			return err
		}
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" || os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		return fmt.Errorf("credentials are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
	}
	if j.StartNs == 0 && j.DeadlineNs == 0 {
		return nil
	}
	return j.checkTimes()
}

func (j *Job) checkTimes() error {
	const longest = int64(4 * 3600e9)
	if j.StartNs <= 0 || j.DeadlineNs <= j.StartNs || j.DeadlineNs-j.StartNs > longest {
		return fmt.Errorf("start_ns, deadline_ns = %d, %d: the deadline must be after the start, and at most four hours later", j.StartNs, j.DeadlineNs)
	}
	return nil
}

func (j *Job) checkObjects() error {
	o := j.Objects
	if len(o.Bucket) != len(o.Key) || (len(o.Body) != len(o.Key) && len(o.Body) != 0) {
		return fmt.Errorf("objects: columns of %d keys, %d buckets, %d bodies: give each object all of them", len(o.Key), len(o.Bucket), len(o.Body))
	}
	if len(o.Key) == 0 && j.Has(Get, GetRange, Head, Delete, Multi) && j.Rewrite == nil && !j.Mixed() {
		return fmt.Errorf("objects: there are none, but operations read or delete objects")
	}
	for i, b := range o.Bucket {
		if b < 0 || b >= len(j.Buckets) {
			return fmt.Errorf("objects.bucket[%d] = %d: there are %d buckets", i, b, len(j.Buckets))
		}
	}
	for i, b := range o.Body {
		if len(j.Bodies) > 0 && (b < 0 || b >= len(j.Bodies)) {
			return fmt.Errorf("objects.body[%d] = %d: there are %d bodies", i, b, len(j.Bodies))
		}
	}
	for i, u := range j.Uploads {
		if u.Bucket < 0 || u.Bucket >= len(j.Buckets) {
			return fmt.Errorf("uploads[%d].bucket = %d: there are %d buckets", i, u.Bucket, len(j.Buckets))
		}
	}
	for i, u := range j.Lists {
		if u.Bucket < 0 || u.Bucket >= len(j.Buckets) {
			return fmt.Errorf("lists[%d].bucket = %d: there are %d buckets", i, u.Bucket, len(j.Buckets))
		}
	}
	if j.Has(Put) && (len(j.Uploads) == 0 && !j.Named() || len(j.Bodies) == 0) {
		return fmt.Errorf("uploads, bodies: PUT needs at least one of each")
	}
	if j.Named() && (len(j.Operations) > 1 || !j.Has(Put) || len(j.Uploads) > 0 || len(o.Size) != len(o.Key) || len(o.Body) != len(o.Key)) {
		return fmt.Errorf("objects.size: only for PUT as the only operation, without uploads; each object needs a size and a body")
	}
	for i, size := range o.Size {
		if size < 0 || size > j.ObjectSize {
			return fmt.Errorf("objects.size[%d] = %d: must be from 0 to object_size = %d B", i, size, j.ObjectSize)
		}
	}
	if j.FirstPut < 0 {
		return fmt.Errorf("first_put = %d: must be 0 or more", j.FirstPut)
	}
	for i, name := range j.Bodies {
		found, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("bodies[%d] = %s: cannot be read", i, name)
		}
		if found.Size() != j.ObjectSize {
			return fmt.Errorf("bodies[%d] = %s: has %d B, but object_size = %d B", i, name, found.Size(), j.ObjectSize)
		}
	}
	return nil
}

func (j *Job) checkRewrite() error {
	w := j.Rewrite
	switch {
	case len(j.Operations) != 2 || !j.Has(Put) || !j.Has(Delete):
		return fmt.Errorf("rewrite: only the operations PUT and DELETE are possible")
	case w.Keys < 1 || w.Keys > 1_000_000:
		return fmt.Errorf("rewrite.keys = %d: must be from 1 to 1000000 for each worker", w.Keys)
	case !(w.Deletes >= 0 && w.Deletes <= 1):
		return fmt.Errorf("rewrite.deletes = %g: must be from 0 to 1", w.Deletes)
	case len(w.Stamp) != StampSize-12:
		return fmt.Errorf("rewrite.stamp: has %d B, but must have %d B (in base64)", len(w.Stamp), StampSize-12)
	case j.ObjectSize < StampSize:
		return fmt.Errorf("object_size = %d: rewrite needs %d B or more, to distinguish versions of an object", j.ObjectSize, StampSize)
	case j.PartSize > 0 && j.ObjectSize > j.PartSize:
		return fmt.Errorf("part_size = %d: must be 0, because rewrite uploads whole objects", j.PartSize)
	}
	return nil
}

func (j *Job) checkRange() error {
	r := &j.Range
	if r.Offset == "" {
		r.Offset = "sequential"
	}
	if r.Offset != "random" && r.Offset != "sequential" {
		if n, err := strconv.ParseInt(r.Offset, 10, 64); err != nil || n < 0 {
			return fmt.Errorf("range.offset = %s: must be random, sequential, or a number of bytes", r.Offset)
		}
	}
	if r.Length < 1 || r.Fixed()+r.Length > j.ObjectSize {
		return fmt.Errorf("range: %d B at %s are not in an object of %d B: set a smaller range, or larger objects", r.Length, r.Offset, j.ObjectSize)
	}
	return nil
}
