// Command nullserver answers S3 requests with almost no work. The rate that a client reaches with it is the client's
// limit.
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
	listen := flag.String("listen", "127.0.0.1:25000", "address and port to listen on")
	bodies := flag.String("bodies", "", "folder of the files with the contents of objects")
	cert := flag.String("cert", "", "certificate chain (PEM), to use https")
	key := flag.String("key", "", "private key (PEM) of -cert")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
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
