// go-stomp over TLS: main HOST PORT CA LOGIN PASSCODE. One message goes out and comes back: "done".
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/go-stomp/stomp/v3"
)

func main() {
	host, port, caFile, login, passcode := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	pem, err := os.ReadFile(caFile)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	socket, err := tls.Dial("tcp", net.JoinHostPort(host, port), &tls.Config{RootCAs: pool, ServerName: host})
	check(err)
	connection, err := stomp.Connect(socket, stomp.ConnOpt.Login(login, passcode), stomp.ConnOpt.Host(host))
	check(err)
	subscription, err := connection.Subscribe("/queue/go", stomp.AckAuto)
	check(err)
	check(connection.Send("/queue/go", "text/plain", []byte("hello")))
	message := <-subscription.C
	check(message.Err)
	if string(message.Body) != "hello" {
		log.Fatal(string(message.Body))
	}
	check(connection.Disconnect())
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
