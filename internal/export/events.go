package export

import "github.com/rtl-attach/rtl-attach/internal/traceread"

// Track is where events are drawn, in lanes, each of which shows one event at a time.
type Track struct {
	Kind    string // of its events
	Number  int64  // among the tracks of its kind
	Session *traceread.Session
	GPU     *traceread.Agent // that it is drawn below; nil: below the session's process
	Name    string           // for people
	About   string           // for people: what its events are
	Rank    int              // among the tracks below the same GPU or process; dispatches have 1
}

// Event is a recorded time of any kind but a dispatch: dispatches are too many for a call
// each through a source. Its times are within 0 ≤ StartNS ≤ EndNS ≤ traceread.LatestNS.
type Event struct {
	Track          *Track
	StartNS, EndNS int64
	Name, Category string
	Args           []Arg
}

// Arg is a number that belongs to an event.
type Arg struct {
	Name  string
	Value int64
}

// A source calls visit for each event of a kind, in the order of their starts. It counts in
// the export's result what it gives and what it leaves out. An event is valid until visit
// returns; its track stays the same for all events that belong together.
type source func(e *export, visit func(*Event) error) error

// sources are the kinds of event that the formats for timelines show beside dispatches.
var sources = []source{copyEvents}

// events gives the events of all sources, each with its lane.
func (e *export) events(visit func(one *Event, lane int) error) error {
	for _, events := range sources {
		places := newLanes[*Track]()
		err := events(e, func(one *Event) error {
			lane, err := places.place(one.Track, one.StartNS, one.EndNS)
			if err != nil {
				return err
			}
			return visit(one, lane)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
