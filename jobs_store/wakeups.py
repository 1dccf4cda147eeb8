"""Wake-ups: how one process tells another to look at the store now rather than at its next poll.

Nothing relies on them. Whoever waits also polls, so a signal that is lost, or a process that sends and hears
none (`silent`, and `Subscriptions` without a `Listener`), costs time and nothing else.
"""

from jobs_store.listener import Listener, ListenerLimits
from jobs_store.notifier import Notifier, NotifierLimits
from jobs_store.pacing import Backoff
from jobs_store.signals import Channel, Notify, Signal, cancel_asked, job_changed, jobs_ready, silent
from jobs_store.subscriptions import Subscriptions, Wakeup

__all__ = [
    "Backoff",
    "Channel",
    "Listener",
    "ListenerLimits",
    "Notifier",
    "NotifierLimits",
    "Notify",
    "Signal",
    "Subscriptions",
    "Wakeup",
    "cancel_asked",
    "job_changed",
    "jobs_ready",
    "silent",
]
