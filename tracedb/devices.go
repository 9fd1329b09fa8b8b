package tracedb

// devices numbers the GPUs of a file. Each process counts its GPUs from 0, whatever subset
// of the machine it sees; in the file a device has one number.
type devices map[device]int64

type device struct {
	place      int64
	driverNode uint32
}

// place is the PCI address: domain << 32 | bus << 8 | device << 3 | function.
func (a Agent) place() int64 { return int64(a.PCIDomain)<<32 | int64(a.BDF) }

// nowhere means that the bus address and the driver node are unknown.
const nowhere = 1<<32 - 1

// mostDevices limits the devices that an extended file can make the tool remember.
const mostDevices = 1 << 12

// unknownGPU is the number of "some GPU", beyond those of any machine.
const unknownGPU = 999

// number returns the device's number: the process's own ordinal if no other device has it.
func (ds devices) number(d device, ordinal uint32) int64 {
	if n, ok := ds[d]; ok {
		return n
	}
	taken := map[int64]bool{}
	for _, n := range ds {
		taken[n] = true
	}
	n := int64(ordinal)
	for taken[n] {
		n++
	}
	ds[d] = n
	return n
}
