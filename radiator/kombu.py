"""The public name of the transport of kombu: importing it makes `radiator://HOST:61613` an address of a broker, and
`radiators://HOST:61612` one by TLS.

The transport itself is radiator/integrations/kombu.
"""

from radiator.integrations.kombu import SSLTransport as SSLTransport
from radiator.integrations.kombu import Transport as Transport
