<?php
// stomp-php over TLS: php stomp_php.php HOST PORT CA LOGIN PASSCODE. One message goes out and comes back: "done".
require getenv("VENDOR") . "/autoload.php";

[, $host, $port, $ca, $login, $passcode] = $argv;
try {
    $connection = new Stomp\Network\Connection(
        "ssl://$host:$port",
        5,
        ["ssl" => ["cafile" => $ca, "verify_peer" => true, "verify_peer_name" => true]]
    );
    $client = new Stomp\Client($connection);
    $client->setLogin($login, $passcode);
    $stomp = new Stomp\SimpleStomp($client);
    $stomp->subscribe("/queue/php", "0", "auto");
    $stomp->send("/queue/php", new Stomp\Transport\Message("hello"));
    $frame = $stomp->read();
    if (!$frame || $frame->body !== "hello") {
        throw new Exception("nothing came");
    }
    $client->disconnect();
} catch (Throwable $wrong) {
    fwrite(STDERR, $wrong->getMessage() . "\n");
    if (isset($wrong->getFrame)) {
        fwrite(STDERR, $wrong->getFrame()->body);
    }
    exit(1);
}
echo "done\n";
