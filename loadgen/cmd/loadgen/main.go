// Command loadgen puts load on S3 servers and records the result of each operation.
//
// It reads one JSON job from standard input (see package job and docs/loadgen.md), and credentials from
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. It writes one JSON object per line to standard error:
// {"ready": …} when all connections exist, {"progress": …} five times a second, {"summary": …} at the end, after it has
// written the records. The exit status is 0 after success, 1 if the records or the ledger could not be written, and 2
// for an invalid job, with one line of text and without records. It is 130 or 143 if a signal ended the run early; then
// the records contain the operations so far.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"storelab/loadgen/job"
	"storelab/loadgen/load"
)

var version = "unknown" // set by the linker: hash of the sources

// garbage is the maximum size of garbage in percent of the memory in use. It is less than Go's default of 100, because
// the records need memory. A cost in CPU time could not be measured.
const garbage = 40

func main() {
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		fmt.Println(version)
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	os.Exit(run(os.Stdin))
}

// printing ensures that lines on standard error are not mixed.
var printing sync.Mutex

func say(what string, value any) {
	line, err := json.Marshal(map[string]any{what: value})
	if err == nil {
		printing.Lock()
		defer printing.Unlock()
		os.Stderr.Write(append(line, '\n'))
	}
}

func refuse(err error) int {
	fmt.Fprintln(os.Stderr, "loadgen:", err)
	return 2
}

func run(in io.Reader) int {
	lines := bufio.NewReaderSize(in, 1<<20)
	text, err := lines.ReadBytes('\n')
	if err != nil && !(errors.Is(err, io.EOF) && len(text) > 0) {
		return refuse(errors.New("there is no job on standard input: write one JSON object in one line"))
	}
	j, err := job.Parse(text)
	if err != nil {
		return refuse(err)
	}
	r, err := load.New(j)
	if err != nil {
		return refuse(err)
	}
	text = nil // free this memory, because the text can be large
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := r.Connect(); err != nil {
		return refuse(err)
	}
	say("ready", map[string]any{"version": version, "pid": os.Getpid()})
	if j.StartNs == 0 {
		type line struct {
			text []byte
			err  error
		}
		second := make(chan line, 1)
		go func() {
			text, err := lines.ReadBytes('\n')
			second <- line{text, err}
		}()
		select {
		case got := <-second:
			if len(got.text) == 0 {
				return refuse(errors.New("there are no times on standard input: write start_ns and deadline_ns in a second line"))
			}
			if err := j.Times(got.text); err != nil {
				return refuse(err)
			}
		case s := <-signals:
			return 128 + int(s.(syscall.Signal))
		}
	}
	status := 0
	var once sync.Mutex
	go func() {
		for s := range signals {
			once.Lock()
			status = 128 + int(s.(syscall.Signal))
			once.Unlock()
			r.Stop()
		}
	}()
	summary := r.Do(func(sums load.Sums) { say("progress", sums) })
	if err := r.Write(&summary); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		return 1
	}
	say("summary", summary)
	once.Lock()
	defer once.Unlock()
	return status
}
