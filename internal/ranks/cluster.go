package ranks

import (
	"slices"
	"sort"
)

const (
	mostNeighbours = 32      // lanes with which each is compared
	mostSampled    = 1 << 12 // kernels of each lane that are compared to find which belong together
	similarEnds    = 4       // the ends of a group's other pairs are at most so many times as far apart as those of the closest
)

// link is two lanes that may do collectives together.
type link struct {
	x, y     int
	medianNS int64 // between the ends of their pairs
}

// clusters returns lanes that belong together, several each. Several groups that are in step with each other end their
// collectives close together, too, but not as close as the ranks of one group.
func (a *Analysis) clusters(lanes []*lane) (clusters [][]*lane) {
	closest := make([]int64, len(lanes)) // -1: no lane is together with it
	for i := range closest {
		closest[i] = -1
	}
	var links []link
	for x := range lanes {
		for y := x + 1; y < min(len(lanes), x+1+mostNeighbours); y++ {
			medianNS, together := a.compare(lanes[x], lanes[y])
			if !together {
				continue
			}
			links = append(links, link{x, y, medianNS})
			for _, i := range [...]int{x, y} {
				if closest[i] < 0 || medianNS < closest[i] {
					closest[i] = medianNS
				}
			}
		}
	}
	of := make([]int, len(lanes)) // the cluster of each lane, as the number of one of its lanes
	for i := range of {
		of[i] = i
	}
	for _, one := range links {
		if lanes[one.x].isExact() || one.medianNS <= max(ClockNS, similarEnds*max(closest[one.x], closest[one.y])) {
			from, to := of[one.y], of[one.x]
			for i := range of {
				if of[i] == from {
					of[i] = to
				}
			}
		}
	}
	for i := range lanes {
		var members []*lane
		for j := range lanes {
			if of[j] == i {
				members = append(members, lanes[j])
			}
		}
		if len(members) > 1 {
			clusters = append(clusters, members)
		}
	}
	return clusters
}

// compare compares the first kernels of two lanes from where both have some. Clocks of two hosts cannot be compared.
func (a *Analysis) compare(x, y *lane) (medianNS int64, together bool) {
	if a.Ranks[x.rank].Process.ID.Host != a.Ranks[y.rank].Process.ID.Host {
		return 0, false
	}
	p := pairing{a: x.sample(y), b: y.sample(x)}
	if len(p.a.free) == 0 || len(p.b.free) == 0 {
		return 0, false
	}
	return p.together()
}

// sample returns the lane with its first free kernels from the first one of another lane on.
func (l *lane) sample(other *lane) *lane {
	fromNS := other.kernels[other.free[0]].EndNS - slackNS
	from := sort.Search(len(l.free), func(i int) bool { return l.kernels[l.free[i]].EndNS >= fromNS })
	some := *l
	some.free = slices.Clip(l.free[from:min(len(l.free), from+mostSampled)])
	return &some
}
