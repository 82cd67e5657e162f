#!/bin/sh
# Runs its arguments.
exec "$@"
