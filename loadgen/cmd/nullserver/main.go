// Command nullserver answers S3 requests at almost no cost. The rate of a client against it is the client's own limit.
//
// It does not check signatures and stores nothing; see package s3null. It ends on SIGTERM and SIGINT.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"storelab/loadgen/s3null"
)

var version = "unknown" // set by the linker: hash of the sources

func main() {
	listen := flag.String("listen", "127.0.0.1:25000", "address and port to listen at")
	bodies := flag.String("bodies", "", "folder of the bodies that objects have")
	cert := flag.String("cert", "", "certificate chain (PEM): speak https")
	key := flag.String("key", "", "private key (PEM) of -cert")
	tell := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *tell {
		fmt.Println(version)
		return
	}
	if err := serve(*listen, *bodies, *cert, *key); err != nil {
		fmt.Fprintln(os.Stderr, "nullserver:", err)
		os.Exit(1)
	}
}

// serve answers requests until a signal ends the process.
func serve(listen, folder, cert, key string) error {
	if found, err := os.Stat(folder); err != nil || !found.IsDir() {
		return fmt.Errorf("-bodies: %q is not a folder", folder)
	}
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ended
		os.Exit(0) // nothing is stored, so there is nothing to finish
	}()
	server := (&s3null.Server{Bodies: s3null.Open(folder)}).HTTP()
	if cert != "" {
		return server.ServeTLS(socket, cert, key)
	}
	return server.Serve(socket)
}
