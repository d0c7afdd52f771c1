// Package link simulates a link with a given delay and rate in front of a TCP server. Data of clients are delayed, and
// data of the server are limited to a rate that all connections share. The bytes are not changed or parsed, so TLS works.
package link

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	most   = 64 << 10 // maximum number of bytes of one piece
	queued = 256      // maximum number of delayed pieces of one connection
)

// Link forwards connections to Target.
type Link struct {
	Target string
	Delay  time.Duration // delay of the clients' data, which is added to each request
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
		client.CloseRead() // the server has closed the connection and does not need more data
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

// wait returns when the given number of bytes has passed the link, after all earlier bytes.
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
