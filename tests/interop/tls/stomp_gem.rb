# The stomp gem over TLS: ruby stomp_gem.rb HOST PORT CA LOGIN PASSCODE. One message goes out and comes back: "done".
require "stomp"
require "timeout"

host, port, ca_file, login, passcode = ARGV
server = { login: login, passcode: passcode, host: host, port: port.to_i,
           ssl: Stomp::SSLParams.new(ts_files: ca_file, fsck: true) }
Timeout.timeout(10) do
  connection = Stomp::Connection.new(
    hosts: [server], reliable: false, max_reconnect_attempts: 1,
    connect_headers: { "accept-version" => "1.2", "host" => host }
  )
  raise connection.connection_frame.body if connection.connection_frame.command != "CONNECTED"
  connection.subscribe("/queue/gem", { id: "0" })
  connection.publish("/queue/gem", "hello")
  message = connection.receive
  raise message.body unless message.command == "MESSAGE" && message.body == "hello"
  connection.disconnect
end
puts "done"
