package main

// What privileges.c does at the start is all that is wanted of it.

import "C"
