// Package link puts a link with a given delay and rate in front of a TCP server. Data of clients are delayed; data of
// the server are shaped to a rate that all connections share. Bytes are not changed, so TLS works; HTTP is not parsed.
package link

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	most   = 64 << 10 // bytes in flight at a time, and bytes of one turn at a shaped rate
	queued = 256      // pieces of one connection on the way to the server
)

// Link forwards connections to Target.
type Link struct {
	Target string
	Delay  time.Duration // of the clients' data: adds a round trip to each request
	Rate   float64       // bytes per second to all clients together; 0: not shaped

	Connections, Up, Down atomic.Int64 // numbers so far: connections, bytes to the server, bytes to the clients

	mu   sync.Mutex
	free time.Time // time when the shaped link will have sent everything
}

// Serve accepts connections until the listener is closed.
func (l *Link) Serve(listener net.Listener) error {
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		l.Connections.Add(1)
		go l.forward(client.(*net.TCPConn))
	}
}

func (l *Link) forward(client *net.TCPConn) {
	defer client.Close()
	dialled, err := net.DialTimeout("tcp", l.Target, 10*time.Second)
	if err != nil {
		return
	}
	server := dialled.(*net.TCPConn)
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() {
		l.up(server, client)
		server.CloseWrite()
	})
	both.Go(func() {
		l.down(client, server)
		client.CloseWrite()
		client.CloseRead() // the server has closed and needs no more data
	})
	both.Wait()
}

type piece struct {
	bytes []byte
	due   time.Time
}

// up forwards the data of the client, each piece after the delay. Pieces do not wait for each other.
func (l *Link) up(server, client *net.TCPConn) {
	if l.Delay <= 0 {
		n, _ := io.Copy(server, client)
		l.Up.Add(n)
		return
	}
	pieces := make(chan piece, queued)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, most)
			n, err := client.Read(buffer)
			if n > 0 {
				pieces <- piece{buffer[:n], time.Now().Add(l.Delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for p := range pieces {
		if failed {
			continue // until the reader notices that its end is closed
		}
		time.Sleep(time.Until(p.due))
		n, err := server.Write(p.bytes)
		l.Up.Add(int64(n))
		if failed = err != nil; failed {
			client.CloseRead()
		}
	}
}

// down forwards the data of the server, in turns of the shaped link.
func (l *Link) down(client, server *net.TCPConn) {
	if l.Rate <= 0 {
		n, _ := io.Copy(client, server) // the kernel copies the data
		l.Down.Add(n)
		return
	}
	buffer := make([]byte, most)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			l.wait(n)
			if _, failed := client.Write(buffer[:n]); failed != nil {
				server.CloseRead()
				return
			}
			l.Down.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

// wait returns when the given bytes have passed the link, after all earlier ones.
func (l *Link) wait(n int) {
	l.mu.Lock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.Rate * 1e9))
	until := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(until))
}
