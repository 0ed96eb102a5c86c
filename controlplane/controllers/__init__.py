"""The controllers, each a complete slice: events, reasons, state, decisions, observations, requests."""
