// Command linkproxy puts a link with a given delay and rate in front of a TCP server; see package link.
//
// It writes {"port": …} to standard output when it listens. At the end, on SIGTERM or SIGINT, it writes
// {"connections": …, "up": …, "down": …}, with up and down in bytes.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"storelab/loadgen/link"
)

var version = "unknown" // set by the linker: hash of the sources

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address and port to listen on; port 0 means any free port")
	target := flag.String("target", "", "address and port of the server")
	delay := flag.Duration("delay", 0, "delay of each request, for example 20ms")
	rate := flag.Float64("rate", 0, "rate of all connections together towards the clients, in bits per second; 0: not shaped")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		fmt.Println(version)
		return
	}
	if err := serve(*listen, *target, *delay, *rate); err != nil {
		fmt.Fprintln(os.Stderr, "linkproxy:", err)
		os.Exit(2)
	}
}

func say(value any) { _ = json.NewEncoder(os.Stdout).Encode(value) }

func serve(listen, target string, delay time.Duration, rate float64) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("-target: %q is not an address with a port", target)
	}
	if delay < 0 || rate < 0 {
		return fmt.Errorf("-delay and -rate must be 0 or more")
	}
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	l := &link.Link{Target: target, Delay: delay, Rate: rate / 8}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go l.Serve(socket)
	say(map[string]int{"port": socket.Addr().(*net.TCPAddr).Port})
	<-ended
	say(map[string]int64{"connections": l.Connections.Load(), "up": l.Up.Load(), "down": l.Down.Load()})
	return nil
}
