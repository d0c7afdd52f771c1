package load

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// wrong is the error for an answer that does not match the request. Its bytes are not counted.
type wrong struct{ class, text string }

func (w *wrong) Error() string { return w.text }

func wrongf(class, format string, values ...any) error {
	return &wrong{class, fmt.Sprintf(format, values...)}
}

// refusal is an answer that reports an error.
type refusal struct {
	status        int
	code, message string
}

func (r *refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP status %d %s %s", r.status, r.code, r.message))
}

// refused returns the S3 error in an answer, if it has one.
func refused(a answer) error {
	return &refusal{a.status, element(a.body, "Code"), element(a.body, "Message")}
}

// element returns the text of the first element with this name, at any depth: in a single error or one of many objects.
func element(text []byte, name string) string {
	_, rest, found := bytes.Cut(text, []byte("<"+name+">"))
	inside, _, ended := bytes.Cut(rest, []byte("</"+name+">"))
	if !found || !ended {
		return ""
	}
	return string(inside)
}

// classHung is the class of an operation that was aborted at the end of the drain. Its duration is a lower limit.
const classHung = "Hung"

var errHung error = &wrong{classHung, "still in flight when the time for operations in flight at the deadline was over"}

// classify returns the class of an error, with the names of all engines (storelab.engines.common.error_classes), and the
// HTTP status; 0 without an answer.
func classify(err error) (class string, status int) {
	var refusal *refusal
	var wrong *wrong
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &refusal):
		if plain(refusal.code) {
			return refusal.code, refusal.status
		}
		return fmt.Sprintf("Http%d", refusal.status), refusal.status
	case errors.As(err, &wrong):
		return wrong.class, 0
	case untrusted(err):
		return "CertificateNotTrusted", 0
	case strings.Contains(err.Error(), "tls: "): // the type of an alert of the server is private to crypto/tls
		return "TlsFailed", 0
	case errors.Is(err, syscall.ECONNREFUSED):
		return "ConnectionRefused", 0
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "ConnectionReset", 0
	case errors.As(err, &name):
		return "NameNotResolved", 0
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "Timeout", 0
	case errors.Is(err, errEnded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "ConnectionClosed", 0
	case errors.Is(err, errBadAnswer):
		return "BadAnswer", 0
	}
	return "Other", 0
}

var codes = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// plain returns whether a text looks like an error code, and not like a sentence or a part of the request's keys.
func plain(code string) bool {
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		if len(code) >= 12 && strings.Contains(os.Getenv(name), code) {
			return false
		}
	}
	return codes.MatchString(code)
}

// untrusted returns whether the server's certificate caused the error.
func untrusted(err error) bool {
	var check *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &check) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
