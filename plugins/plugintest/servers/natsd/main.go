// Command natsd runs a NATS server with the configuration of the file that -c names.
package main

import (
	"flag"
	"log"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	file := flag.String("c", "", "configuration file")
	flag.Parse()
	options, err := server.ProcessConfigFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		log.Fatal(err)
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		log.Fatal(err)
	}
	s.WaitForShutdown()
}
