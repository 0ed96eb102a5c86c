"""Rules that several settings share, by the name of what they allow."""

from __future__ import annotations

from datetime import timedelta

from controlplane.settings.rules import DNS_LABEL, DNS_NAME, Choice, Duration, Integer, Text

FILE = Text(what="the path of a file", pattern=r"[^\x00-\x1f]+", longest=4096, empty=True)
LABEL_VALUE = Text(what="a valid label value", pattern=r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", longest=63)
LOG_NAME = Text(what="lower-case letters, digits and `-`", pattern=DNS_LABEL, longest=63)
NAMESPACE = Text(what="the name of a namespace", pattern=DNS_LABEL, longest=63)
SCHEDULER_NAME = Text(what="the name of a scheduler", pattern=DNS_NAME)
YES_NO = Choice(("yes", "no"))
EXECUTION_POLICY = Choice(("at-least-once", "never-twice"))
CLOCK_SKEW = Duration(zero="clocks agree", most=timedelta(minutes=1))
PORT = Integer(least=0, most=65_535)
