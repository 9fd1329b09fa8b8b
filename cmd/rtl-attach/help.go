package main

const longHelp = `rtl-attach records the GPU timeline of a ROCm process that is already running
and was started without any preparation, and leaves the process as it was.

The flags of a recording have defaults in the environment: RTL_ATTACH_DURATION=5s
is --duration 5s; doctor, too, heeds RTL_ATTACH_OUTPUT.
Ctrl-C ends the recording; pressed again, it does not wait for kernels that still run.

Exit codes, and how the process is left:

    0  records exist, the detach is confirmed           detached
    1  failed, and rolled back                          as found
    2  the command line is wrong                        not touched
    3  not permitted, already traced, no such process   not touched
    4  unsuitable: no ROCm, static, other architecture  not touched
    5  the process exited while attached                gone; the trace is saved
    6  something could not be restored                  as the message says
    7  nothing was recorded                             detached
    8  some of several processes failed                 each as the message says
    9  with --strict: records are missing               detached
   10  with --strict: it ended early                    detached`

const examples = `  rtl-attach ps                              which processes use ROCm here
  rtl-attach doctor 41220                    would an attach work, and if not, why
  rtl-attach -p 41220 -d 5s                  attach, record, detach, summarise
  rtl-attach report trace-41220-….db         what the trace says
  rtl-attach export trace-41220-….db         for ui.perfetto.dev`
