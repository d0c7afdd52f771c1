// Command lossyproxy is an S3 proxy that acknowledges some writes without storing them; see package lossy.
//
// It writes {"port": …} to standard output when it listens. At the end, on SIGTERM or SIGINT, it writes the numbers of
// faults by kind: {"all": …, "unrepaired": …}. The first number counts all faults, and the second those that no later
// write repaired.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"storelab/loadgen/lossy"
)

var version = "unknown" // set by the linker: hash of the sources

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address and port to listen on; port 0 means any free port")
	target := flag.String("target", "", "address and port of the server")
	lies := flag.String("lies", "all", "none, all, or some of drop,flip,stale,resurrect")
	every := flag.Int("every", 1000, "one of this number of writes has a fault")
	seed := flag.Uint64("seed", 1, "seed of the random numbers")
	below := flag.String("below", "/put/", "only writes whose path contains this text can have a fault")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		fmt.Println(version)
		return
	}
	if err := serve(*listen, *target, *lies, *every, *seed, *below); err != nil {
		fmt.Fprintln(os.Stderr, "lossyproxy:", err)
		os.Exit(2)
	}
}

func say(value any) { _ = json.NewEncoder(os.Stdout).Encode(value) }

func serve(listen, target, lies string, every int, seed uint64, below string) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("-target: %q is not an address with a port", target)
	}
	kinds, err := lossy.Kinds(lies)
	if err != nil {
		return fmt.Errorf("-lies: %w", err)
	}
	if every < 1 {
		return fmt.Errorf("-every = %d: must be 1 or more", every)
	}
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	p := &lossy.Proxy{Target: target, Lies: kinds, Every: every, Seed: seed, Below: below}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	server := &http.Server{Handler: p}
	go server.Serve(socket)
	say(map[string]int{"port": socket.Addr().(*net.TCPAddr).Port})
	<-ended
	server.Close()
	all, unrepaired := p.Sums()
	say(map[string]map[string]int{"all": all, "unrepaired": unrepaired})
	return nil
}
