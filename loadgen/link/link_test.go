package link

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// through runs `answer`, which gets the whole connection, behind a link, and returns the address to dial.
func through(t *testing.T, l *Link, answer func(net.Conn)) string {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); front.Close() })
	l.Target = server.Addr().String()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	go l.Serve(front)
	return front.Addr().String()
}

func echo(c net.Conn) {
	io.Copy(c, c)
	c.(*net.TCPConn).CloseWrite()
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func TestBytesPassUnchanged(t *testing.T) {
	for name, l := range map[string]*Link{"free": {}, "late": {Delay: 5 * time.Millisecond}, "shaped": {Rate: 200e6, Delay: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, through(t, l, echo))
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			go func() { c.Write(sent); c.CloseWrite() }()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
			}
			if l.Connections.Load() != 1 {
				t.Fatal("connections", l.Connections.Load())
			}
		})
	}
}

func TestEachRequestIsLate(t *testing.T) {
	c := dial(t, through(t, &Link{Delay: 20 * time.Millisecond}, echo))
	for range 5 {
		begun, one := time.Now(), make([]byte, 4)
		c.Write([]byte("ping"))
		io.ReadFull(c, one)
		if took := time.Since(begun); took < 20*time.Millisecond || took > 120*time.Millisecond {
			t.Fatalf("%v instead of 20 ms", took)
		}
	}
}

func TestTheRateIsShared(t *testing.T) {
	const size, rate = 4 << 20, 40e6
	address := through(t, &Link{Rate: rate}, func(c net.Conn) { c.Write(make([]byte, size)); c.Close() })
	begun := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if n, _ := io.Copy(io.Discard, dial(t, address)); n != size {
				t.Errorf("%d bytes", n)
			}
		})
	}
	all.Wait()
	wanted := 4 * size / rate
	if took := time.Since(begun).Seconds(); took < 0.95*wanted || took > 2*wanted {
		t.Fatalf("%.3f s for what takes %.3f s", took, wanted)
	}
}

func TestNoServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go (&Link{Target: "127.0.0.1:1"}).Serve(listener)
	c := dial(t, listener.Addr().String())
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatal("an answer without a server")
	}
}
