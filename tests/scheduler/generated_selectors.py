"""Draws CEL expressions that select devices: mostly such as people write, and some that fail when they are
evaluated."""

from __future__ import annotations

import random

DOMAIN = "gpu.example.com"
_PLAIN = (
    'device.driver == "gpu.example.com"',
    'device.driver != "nic.example.com"',
    'device.attributes["DOMAIN"].model == "a"',
    'device.attributes["DOMAIN"].index < 2',
    'device.attributes["DOMAIN"]["index"] >= 1',
    'device.attributes["DOMAIN"].model in ["a", "c"]',
    '"numa" in device.attributes["DOMAIN"] && device.attributes["DOMAIN"].numa == 0',
    'has(device.attributes["DOMAIN"].ok) && device.attributes["DOMAIN"].ok',
    'has(device.attributes["none.example.com"].x) || device.attributes["DOMAIN"].index != 0',
    'device.capacity["DOMAIN"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["DOMAIN"].memory.isGreaterThan(quantity("20Gi"))',
    'device.capacity["DOMAIN"].memory.isLessThan(quantity("1e11"))',
    'device.capacity["DOMAIN"].memory == quantity("40960Mi")',
    'device.attributes["DOMAIN"].model.startsWith("a")',
    '!device.attributes["DOMAIN"].model.endsWith("b")',
    'device.attributes["DOMAIN"].model.contains("a") ? true : device.attributes["DOMAIN"].index == 1',
    'cel.bind(own, device.attributes["DOMAIN"], own.model == "a" || own.index == 2)',
    "!device.allowMultipleAllocations",
    "true",
    '"DOMAIN" in device.attributes',
    'device.driver.startsWith("gpu.") && device.driver.lowerAscii() == device.driver',
)
_FAILING = (
    'device.attributes["DOMAIN"].numa == 1',
    'device.attributes["DOMAIN"].ok',
    'device.attributes["DOMAIN"].ok == true',
    'device.attributes["none.example.com"].x == 1',
    'device.attributes["DOMAIN"].version.compareTo(semver("1.2.0")) >= 0',
    'has(device.attributes["DOMAIN"].version) && device.attributes["DOMAIN"].version.isGreaterThan(semver("1.2.3"))',
    'has(device.attributes["DOMAIN"].version) && device.attributes["DOMAIN"].version == semver("1.2.3")',
    'has(device.attributes["DOMAIN"].version) && device.attributes["DOMAIN"].version.major() == 1',
    'has(device.attributes["DOMAIN"].version) && device.attributes["DOMAIN"].version == "1.2.3"',
    'device.attributes["DOMAIN"].model == 1',
    'device.attributes["DOMAIN"].model < 1',
    'device.attributes["DOMAIN"].index.startsWith("a")',
    'device.attributes["DOMAIN"].model',
    'device.attributes["DOMAIN"].index in ["a"]',
    'device.attributes["DOMAIN"].numa == 1 || true',
    'false && device.attributes["DOMAIN"].numa == 1',
    'cel.bind(own, device.attributes["DOMAIN"].numa, device.attributes["DOMAIN"].index == 0 || own == 1)',
    'device.capacity["none.example.com"].memory.isGreaterThan(quantity("1"))',
    'device.attributes["DOMAIN"].model < device.attributes["DOMAIN"].model',
    'device.attributes["DOMAIN"].index == device.attributes["DOMAIN"].numa',
    'quantity(device.attributes["DOMAIN"].model).isGreaterThan(quantity("1"))',
    '!device.attributes["DOMAIN"].index',
    'device.attributes["DOMAIN"].index ? true : false',
    'semver("1.0") == semver("1.0.0")',
    '"x" in device.attributes',
)


def expression(rng: random.Random, wild: bool) -> str:
    """Draw an expression; `wild`: one that may fail, or stand beside one that does."""
    found = rng.choice(_FAILING) if wild and rng.random() < 0.5 else rng.choice(_PLAIN)
    if rng.random() < 0.25:
        other = rng.choice(_FAILING if wild and rng.random() < 0.5 else _PLAIN)
        found = f"({found}) {rng.choice(['&&', '||'])} ({other})"
    return found.replace("DOMAIN", DOMAIN)
