// The work of a program of Go with its run-time: goroutines, timers, other programs, servers by a path and by a port.
//
// Interface: `serve each` does each thing once and says what came out, a line each; `serve http ADDRESS` serves pages until it gets SIGTERM.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// goroutines passes a number through a chain of a thousand, from both ends at once.
func goroutines() string {
	first := make(chan int)
	last := first
	for i := 0; i < 1000; i++ {
		next := make(chan int)
		go func(from, to chan int) {
			for v := range from {
				to <- v + 1
			}
			close(to)
		}(last, next)
		last = next
	}
	go func() {
		for i := 0; i < 10; i++ {
			first <- i
		}
		close(first)
	}()
	sum := 0
	for v := range last {
		sum += v
	}
	return fmt.Sprint(sum)
}

// timers sets many that end in another order than they were made in, and one that is stopped.
func timers() string {
	begin := time.Now()
	var late atomic32
	var group sync.WaitGroup
	for i := 0; i < 200; i++ {
		wait := time.Duration(200-i) * time.Millisecond / 4
		group.Add(1)
		time.AfterFunc(wait, func() {
			if time.Since(begin) >= wait {
				late.add()
			}
			group.Done()
		})
	}
	stopped := time.AfterFunc(time.Hour, func() { late.add() })
	ticker := time.NewTicker(time.Millisecond)
	for i := 0; i < 5; i++ {
		<-ticker.C
	}
	ticker.Stop()
	group.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	return fmt.Sprint(late.get(), stopped.Stop(), errors.Is(ctx.Err(), context.DeadlineExceeded))
}

type atomic32 struct{ value int32 }

func (a *atomic32) add()       { atomic.AddInt32(&a.value, 1) }
func (a *atomic32) get() int32 { return atomic.LoadInt32(&a.value) }

// programs starts twenty at once, one that fails, one that is killed when its time is over.
func programs() string {
	var group sync.WaitGroup
	var good atomic32
	for i := 0; i < 20; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			command := exec.Command("tr", "a-z", "A-Z")
			command.Stdin = strings.NewReader(fmt.Sprint("line ", i))
			out, err := command.Output()
			if err == nil && string(out) == fmt.Sprint("LINE ", i) {
				good.add()
			}
		}(i)
	}
	group.Wait()
	var failed *exec.ExitError
	status := -1
	if errors.As(exec.Command("sh", "-c", "exit 7").Run(), &failed) {
		status = failed.ExitCode()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := exec.CommandContext(ctx, "sleep", "1000").Run()
	_, missing := exec.LookPath("no-such-program")
	return fmt.Sprint(good.get(), " ", status, " ", err, " ", missing != nil)
}

// path serves by a path, and has forty clients at once.
func path() string {
	folder, err := os.MkdirTemp("", "serve")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(folder)
	name := filepath.Join(folder, "socket")
	listener, err := net.Listen("unix", name)
	if err != nil {
		return err.Error()
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				lines := bufio.NewScanner(client)
				for lines.Scan() {
					fmt.Fprintln(client, strings.ToUpper(lines.Text()))
				}
			}()
		}
	}()
	var group sync.WaitGroup
	var good atomic32
	for i := 0; i < 40; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			client, err := net.Dial("unix", name)
			if err != nil {
				return
			}
			defer client.Close()
			for round := 0; round < 10; round++ {
				fmt.Fprintln(client, "word", i, round)
				line, err := bufio.NewReader(client).ReadString('\n')
				if err != nil || line != fmt.Sprintln("WORD", i, round) {
					return
				}
			}
			good.add()
		}(i)
	}
	group.Wait()
	silent, err := net.Dial("unix", name)
	if err != nil {
		return err.Error()
	}
	defer silent.Close()
	silent.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err = silent.Read(make([]byte, 1))
	listener.Close()
	_, gone := os.Stat(name)
	return fmt.Sprint(good.get(), " ", errors.Is(err, os.ErrDeadlineExceeded), " ", os.IsNotExist(gone))
}

// signals sends some to itself.
func signals() string {
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGWINCH)
	defer signal.Stop(got)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	first := <-got
	syscall.Kill(os.Getpid(), syscall.SIGWINCH)
	return fmt.Sprint(first, ", ", <-got)
}

// pages serves by a port to its own client.
func pages() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err.Error()
	}
	server := &http.Server{Handler: http.HandlerFunc(page)}
	go server.Serve(listener)
	var group sync.WaitGroup
	var bytes int64
	for i := 0; i < 20; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			answer, err := http.Get("http://" + listener.Addr().String() + "/")
			if err != nil {
				return
			}
			n, _ := io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			atomic.AddInt64(&bytes, n)
		}()
	}
	group.Wait()
	err = server.Shutdown(context.Background())
	return fmt.Sprint(bytes, " ", err)
}

func page(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set("Content-Type", "text/plain")
	io.WriteString(out, strings.Repeat("0123456789abcde\n", 64))
}

func serve(address string) {
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(page)}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		<-end
		server.Shutdown(context.Background())
		close(done)
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-done
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "http" {
		serve(os.Args[2])
		return
	}
	for _, part := range []struct {
		name string
		do   func() string
	}{
		{"goroutines", goroutines}, {"timers", timers}, {"programs", programs}, {"path", path}, {"signals", signals}, {"pages", pages},
	} {
		fmt.Println(part.name+":", part.do())
	}
}
