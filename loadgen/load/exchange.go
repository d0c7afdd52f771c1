package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"

	"storelab/loadgen/sigv4"
)

// request is a request that an operation built. path and query are escaped.
type request struct {
	method, query string
	bucket, key   string
	from, to      int64 // Range, if to > 0
	body          []byte
	stamp         []byte // replaces the first bytes of the body
	md5           string
}

// answer is the answer of the server. `first` is the time when its head arrived.
type answer struct {
	status int
	first  int64
	size   int64
	body   []byte // set for errors, and if the operation needs it
}

// exchange sends a request and reads the answer. If `visit` is not nil, it gets the bytes of a 2xx answer as they arrive.
// With `keep`, the answer contains all bytes. A status other than 2xx is not an error here.
func (c *conn) exchange(q *request, visit func([]byte), keep bool) (answer, error) {
	c.alive.Store(c.run.now())
	a, err := c.attempt(q, visit, keep)
	if c.alive.Swap(0) == aborted || err != nil || c.head.ConnectionClose() {
		c.close()
	}
	c.last = c.run.now()
	return a, err
}

func (c *conn) attempt(q *request, visit func([]byte), keep bool) (answer, error) {
	open, err := c.connect()
	if err != nil {
		return answer{}, err
	}
	if err := c.send(open, q); err != nil {
		// The server can refuse a request and close the connection early. Then its answer is a better explanation than the
		// broken pipe.
		open.SetReadDeadline(time.Now().Add(time.Second))
		if a, also := c.receive(open, q, nil, false); also == nil {
			c.head.SetConnectionClose()
			return a, nil
		}
		return answer{}, err
	}
	return c.receive(open, q, visit, keep)
}

func (c *conn) send(open net.Conn, q *request) error {
	host := c.target.host
	path := append(c.path[:0], '/')
	switch {
	case c.target.virtual && q.bucket != "":
		host = q.bucket + "." + host
	case q.key != "":
		path = append(sigv4.Escape(path, q.bucket, false), '/')
	default:
		path = sigv4.Escape(path, q.bucket, false)
	}
	path = sigv4.Escape(path, q.key, true)
	c.path = path
	out := append(append(append(c.out[:0], q.method...), ' '), path...)
	if q.query != "" {
		out = append(append(out, '?'), q.query...)
	}
	out = append(append(append(out, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	out = c.sign.Append(out, c.run.wall(), q.method, host, path, q.query, c.run.payload(q.body, q.stamp))
	if q.to > 0 {
		out = strconv.AppendInt(append(out, "Range: bytes="...), q.from, 10)
		out = append(strconv.AppendInt(append(out, '-'), q.to-1, 10), "\r\n"...)
	}
	if q.md5 != "" {
		out = append(append(append(out, "Content-MD5: "...), q.md5...), "\r\n"...)
	}
	if q.method == "PUT" || q.method == "POST" {
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(len(q.body)), 10), "\r\n"...)
	}
	out = append(out, "\r\n"...)
	if len(q.body) <= together {
		out = append(append(out, q.stamp...), q.body[len(q.stamp):]...)
		c.out = out
		_, err := open.Write(out)
		return err
	}
	out = append(out, q.stamp...)
	c.out = out
	if _, err := open.Write(out); err != nil {
		return err
	}
	for done := len(q.stamp); done < len(q.body); {
		c.moved()
		n := min(len(q.body)-done, atOnce)
		if _, err := open.Write(q.body[done : done+n]); err != nil {
			return err
		}
		done += n
	}
	c.moved()
	return nil
}

// pieces returns the buffer for long bodies.
func (c *conn) pieces() []byte {
	if c.large == nil {
		c.large = make([]byte, c.run.piece)
	}
	return c.large
}

// moved records activity, unless the connection was aborted.
func (c *conn) moved() {
	if since := c.alive.Load(); since != aborted {
		c.alive.CompareAndSwap(since, c.run.now())
	}
}

func (c *conn) receive(open net.Conn, q *request, visit func([]byte), keep bool) (answer, error) {
	if _, err := c.read.Peek(1); err != nil {
		return answer{}, cut(err)
	}
	if err := c.head.Read(c.read); err != nil {
		return answer{}, badHead(err)
	}
	a := answer{status: c.head.StatusCode(), first: c.run.now()}
	length := int64(c.head.ContentLength())
	if q.method == "HEAD" {
		a.size = length
		return a, nil
	}
	if a.status == 204 || a.status == 304 {
		return a, nil
	}
	if a.status/100 != 2 {
		visit, keep = nil, true
	}
	if q.to > 0 && a.status == 200 { // the answer is not the range, so do not wait for the whole object
		c.head.SetConnectionClose()
		return a, nil
	}
	take := func(b []byte) error {
		a.size += int64(len(b))
		if visit != nil {
			visit(b)
		}
		if keep {
			if a.status/100 != 2 && len(a.body)+len(b) > mostOfError {
				return errBadAnswer
			}
			a.body = append(a.body, b...)
		}
		return nil
	}
	if length >= 0 {
		err := c.counted(open, length, take)
		return a, err
	}
	body, chunked := io.Reader(c.read), length == -1
	if chunked {
		body = httputil.NewChunkedReader(c.read)
	}
	for {
		large := c.pieces()
		n, err := body.Read(large)
		if n > 0 {
			c.moved()
			if err := take(large[:n]); err != nil {
				return a, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return a, cut(err)
		}
	}
	if !chunked { // without chunks and length, the answer ends when the connection ends
		c.head.SetConnectionClose()
		return a, nil
	}
	for { // trailers, and the empty line after them
		line, err := c.read.ReadSlice('\n')
		if err != nil {
			return a, cut(err)
		}
		if len(line) <= 2 {
			return a, nil
		}
	}
}

// counted reads a given number of bytes: first those that arrived with the head, then large pieces from the connection.
func (c *conn) counted(open net.Conn, left int64, take func([]byte) error) error {
	for left > 0 {
		var piece []byte
		var err error
		switch n := c.read.Buffered(); {
		case n > 0:
			piece, _ = c.read.Peek(int(min(int64(n), left)))
			c.read.Discard(len(piece))
		case left <= readAhead:
			if _, err = c.read.Peek(1); err == nil {
				continue
			}
		default:
			large := c.pieces()
			if n, err = open.Read(large[:min(int64(len(large)), left)]); n > 0 {
				piece, err = large[:n], nil
			}
		}
		if err != nil {
			return cut(err)
		}
		left -= int64(len(piece))
		c.moved()
		if err := take(piece); err != nil {
			return err
		}
	}
	return nil
}

var (
	errBadAnswer = errors.New("the answer is not HTTP, or too long")
	errEnded     = errors.New("the connection was closed in the middle of an answer")
)

// cut returns the error for an incomplete answer.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnded
	}
	return err
}

// badHead distinguishes a connection that ended from an answer that cannot be read.
func badHead(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return err
	case cut(err) == errEnded:
		return errEnded
	}
	return fmt.Errorf("%w: %w", errBadAnswer, err)
}
