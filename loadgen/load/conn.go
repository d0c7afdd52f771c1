package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"storelab/loadgen/job"
	"storelab/loadgen/sigv4"
)

const (
	readAhead   = 16 << 10 // bytes of a read; the whole answer with a small object needs only one
	atOnce      = 1 << 20  // bytes that are passed to the kernel between two activity marks of an upload
	together    = 32 << 10 // bytes; smaller bodies are sent in one write together with the head
	mostOfError = 64 << 10 // maximum number of bytes of an answer with an error
	idle        = 5e8      // ns after which a connection is checked before it is used again
	dialTimeout = 10 * time.Second
)

// target is an endpoint with the values that connections need.
type target struct {
	host, address string // value of the Host header; address for connecting
	virtual       bool
	region        string
	tls           *tls.Config
	busy          atomic.Int64 // operations in flight
}

func newTarget(e job.Endpoint) (*target, error) {
	at, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	t := &target{host: at.Host, address: at.Host, virtual: e.Addressing == "virtual", region: e.Region}
	if at.Port() == "" {
		port := "80"
		if at.Scheme == "https" {
			port = "443"
		}
		t.address = net.JoinHostPort(at.Hostname(), port)
	}
	if at.Scheme != "https" {
		return t, nil
	}
	t.tls = &tls.Config{ServerName: at.Hostname(), InsecureSkipVerify: !e.Verify, NextProtos: []string{"http/1.1"}}
	if e.CAFile != "" {
		pem, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file = %s: cannot be read", e.CAFile)
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file = %s: contains no certificate in PEM format", e.CAFile)
		}
	}
	return t, nil
}

// conn is a connection. It is opened at its first use, and again if the server closed it or an answer was not read
// completely. Only one goroutine uses it at a time, but another one can call abort.
type conn struct {
	run    *Run
	target *target
	sign   *sigv4.Signer
	net    atomic.Pointer[net.Conn]
	read   *bufio.Reader
	head   fasthttp.ResponseHeader
	out    []byte
	path   []byte
	large  []byte       // for bodies that are longer than readAhead
	alive  atomic.Int64 // time of the last byte or of the begin of the request; 0: idle; aborted: abort was called
	last   int64        // time when it became idle
}

const aborted = -1

var past = time.Unix(1, 0)

func (c *conn) close() {
	if open := c.net.Swap(nil); open != nil {
		(*open).Close()
		c.run.open.Add(-1)
	}
}

// abort ends the operation that is in flight since this time with a timeout error.
func (c *conn) abort(since int64) {
	if c.alive.CompareAndSwap(since, aborted) {
		if open := c.net.Load(); open != nil {
			(*open).SetDeadline(past)
		}
	}
}

func (c *conn) connect() (net.Conn, error) {
	if open := c.net.Load(); open != nil {
		if c.run.now()-c.last < idle || !stale(*open) {
			return *open, nil
		}
		c.close()
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	plain, err := dialer.DialContext(c.run.ctx, "tcp", c.target.address)
	if err != nil {
		return nil, err
	}
	fresh, err := newQuick(plain.(*net.TCPConn))
	if err != nil {
		plain.Close()
		return nil, err
	}
	open := net.Conn(fresh)
	if c.target.tls != nil {
		secured := tls.Client(fresh, c.target.tls)
		ctx, cancel := context.WithTimeout(c.run.ctx, dialTimeout)
		defer cancel()
		if err := secured.HandshakeContext(ctx); err != nil {
			plain.Close()
			return nil, err
		}
		open = secured
	}
	c.net.Store(&open)
	if c.alive.Load() == aborted { // aborted before the connection existed
		open.SetDeadline(past)
	}
	c.run.dials.Add(1)
	if n := c.run.open.Add(1); n > c.run.mostOpen.Load() {
		c.run.mostOpen.Store(n)
	}
	if c.read == nil {
		c.read = bufio.NewReaderSize(open, readAhead)
	} else {
		c.read.Reset(open)
	}
	return open, nil
}

// stale returns whether the server has closed the idle connection, or sent unexpected data.
func stale(open net.Conn) bool {
	if secured, ok := open.(*tls.Conn); ok {
		open = secured.NetConn()
	}
	closed := true
	err := open.(*quick).raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err != syscall.EAGAIN
		return true
	})
	return closed || err != nil
}
