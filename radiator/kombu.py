"""The public name of the transport of kombu: importing it makes `radiator://HOST:61613` an address of a broker.

The transport itself is radiator/integrations/kombu.
"""

from radiator.integrations.kombu import Transport as Transport
