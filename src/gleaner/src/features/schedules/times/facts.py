#!/usr/bin/env python3
"""Makes facts.txt: when cron expressions fire, by an implementation that shares nothing with ours.

    python3 -m venv v && v/bin/pip install cronsim==2.8 tzdata==2026.6
    PYTHONTZPATH= v/bin/python facts.py > facts.txt

cronsim fires as Debian's cron does: a fixed time in a gap at the gap's end, in an overlap once; what goes at a pace keeps
real time. A line is: expression | zone | instant | the next instants, all of them UTC. An instant is shortly before a
change of the clocks, in its midst, or shortly behind it. tests.rs reads it, and lists where we differ and why.
"""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from cronsim import CronSim

UTC = timezone.utc

# Zones with a year in which their clocks did something that others do not.
ZONES = [
    ("Europe/Berlin", 2026),
    ("America/New_York", 2027),
    ("Australia/Lord_Howe", 2026),  # half an hour
    ("Pacific/Apia", 2011),  # a day that never was
    ("America/Sao_Paulo", 2018),  # at midnight
    ("Africa/Casablanca", 2026),  # for Ramadan
    ("Africa/Cairo", 2026),
    ("America/Santiago", 2026),
    ("America/St_Johns", 2011),  # one minute past midnight
    ("Antarctica/Troll", 2026),  # two hours
    ("Asia/Tehran", 2022),
    ("Pacific/Chatham", 2026),  # 2:45
    ("Europe/Lisbon", 1992),  # into another zone
    ("Asia/Pyongyang", 2018),  # once, by half an hour
    ("America/Caracas", 2016),
    ("Europe/Volgograd", 2018),
]

# What is asked around each change: at times that are left out or repeated, and beside them.
AROUND = [
    "30 2 * * *",
    "0,15,30,45 0-3 * * *",
    "0 0 * * *",
    "1 0 * * 0",
    "59 23 * * *",
    "*/20 * * * *",
    "17 * * * *",
    "*/30 1-3 * * *",
    "0 */3 * * *",
    "45 1,2 * * MON-SAT",
    "30 0 L * *",
    "5 3 * * 7",
]

# The calendar, away from changes of clocks.
CALENDAR = [
    "0 12 31 * *", "0 12 30 2-4 *", "0 0 29 2 *", "15 10 L * *", "15 10 LW * *", "0 9 * * 1#1", "0 9 * * FRI#5",
    "0 9 * * 5L", "0 9 * * 0L", "0 9 13 * 5", "0 9 1,15 * MON", "0 9 1-7 * 1", "30 4 1 1 *", "5 0 * 8 *", "0 22 * * 1-5",
    "23 0-20/2 * * *", "5 4 * * SUN", "0 0 1 JAN,JUL *", "59 23 31 12 *", "0 0 28-31 * *", "*/7 3 * * *", "0-10/5,50 6 * * *",
    "0 0,12 1 */2 *", "0 4 8-14 * *", "0 0 * * SAT,SUN", "0 8 L FEB *", "1 1 1 1 1", "0 0 31 1,3,5 *", "40 23 * * 4#4",
    "0 17 LW 5,10 *", "10,20 5 * 2 6", "0 6 * 3-5,9-11 TUE-THU", "*/59 * * * *", "0 */23 * * *", "30 9 1 * 2#2",
    "0 0 1 * 6L", "12 12 12 12 *", "0 3 29 2 1",
]


def changes(zone, year):
    """The instants of a year at which clocks in a zone are set."""
    at, found = datetime(year, 1, 1, tzinfo=UTC), []
    while at.year <= year:
        later = at + timedelta(minutes=1)
        # Day by day first, as a year has half a million minutes.
        if at.astimezone(zone).utcoffset() == (at + timedelta(days=1)).astimezone(zone).utcoffset():
            at += timedelta(days=1)
            continue
        if at.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(later)
        at = later
    return found


def line(cron, name, at, count):
    fires = CronSim(cron, at.astimezone(ZoneInfo(name)))
    shown = [next(fires).astimezone(UTC).strftime("%Y-%m-%dT%H:%M") for _ in range(count)]
    print(f"{cron} | {name} | {at.strftime('%Y-%m-%dT%H:%M')} | {' '.join(shown)}")


for name, year in ZONES:
    for change in changes(ZoneInfo(name), year):
        for n, cron in enumerate(AROUND):
            # One expression sees the change coming, the next is asked in its midst, the next behind it.
            shift = [timedelta(hours=-26), timedelta(minutes=-10), timedelta(minutes=20)][n % 3]
            line(cron, name, change + shift, 5)
for n, cron in enumerate(CALENDAR):
    at = datetime(2026, 1 + n % 12, 1 + n % 28, n % 24, n % 60, tzinfo=UTC)
    line(cron, "UTC", at, 6)
    line(cron, "Asia/Kolkata", at + timedelta(days=400), 3)
