"""What the component level has beside Redis: running replicas and what they need around them."""

from tests.support.operator import operator
from tests.support.replica import api, begin_node, replica, room_service
from tests.support.replica_process import start_replica

__all__ = ["api", "begin_node", "operator", "replica", "room_service", "start_replica"]
