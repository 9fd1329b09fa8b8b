package main

// This file makes cgo compile privileges.c, whose constructor needs no caller.

import "C"
