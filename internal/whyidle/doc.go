// Package whyidle says what threads did while a GPU waited for the host: it joins the idle times of
// GPUs with the samples and waits of threads (package cputrace).
//
// The caller asks about times in which a GPU waited for a thread to submit the next kernel. Find then
// reads waits and samples once, in the order of time, beside these times. A thread's time is divided
// into blocked, ready and running by its waits, which are exact; all the time in which it ran is shared
// out by the samples in it. For a blocked thread Find looks one step further: at the thread that woke
// it, and at what that thread did meanwhile.
//
// The trace is untrusted. Memory is bounded: times are held in a temporary file, sums by stack, and of
// each thread's past only the latest part.
package whyidle
