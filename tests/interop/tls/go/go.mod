module radiator/tests/interop/tls

go 1.19

require github.com/go-stomp/stomp/v3 v3.1.5
