package whyidle

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Question asks what a thread did in a time in which a GPU waited for it. The thread submitted the
// kernel that ended the gap: it ran at UntilNS, which is not before the span's end.
type Question struct {
	GPU    int64
	Thread int64 // its row in rtl_thread; tracedb.Null: not known
	traceread.Span
	UntilNS int64
}

const questionWords = 5

func (q *Question) words() [questionWords]int64 {
	return [...]int64{q.GPU, q.Thread, q.BeginNS, q.EndNS, q.UntilNS}
}

// Questions holds the questions of each GPU in the order of their begins: the first ones in memory, the
// others in a temporary file without a name.
type Questions struct {
	byGPU map[int64]*run
	file  *os.File
	bytes int64 // of the file
}

// run holds the questions about one GPU.
type run struct {
	filled []Question // the latest, in memory
	blocks []int64    // places of the earlier ones in the file
	reader *bufio.Reader
	next   Question
	more   bool
}

// blockQuestions is how many questions of a GPU are in memory, and in a block of the file.
const blockQuestions = 1 << 12

// Add adds a question. It must not begin before the GPU's last one.
func (qs *Questions) Add(q Question) error {
	if qs.byGPU == nil {
		qs.byGPU = map[int64]*run{}
	}
	r := qs.byGPU[q.GPU]
	if r == nil {
		r = &run{}
		qs.byGPU[q.GPU] = r
	}
	if len(r.filled) == blockQuestions {
		if err := qs.spill(r); err != nil {
			return err
		}
	}
	r.filled = append(r.filled, q)
	return nil
}

// spill moves the questions of a GPU that are in memory to the file.
func (qs *Questions) spill(r *run) error {
	if qs.file == nil {
		f, err := os.CreateTemp("", "rtl-attach-idle-")
		if err != nil {
			return err
		}
		qs.file = f
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	b := make([]byte, 0, blockQuestions*questionWords*8)
	for i := range r.filled {
		for _, w := range r.filled[i].words() {
			b = binary.LittleEndian.AppendUint64(b, uint64(w))
		}
	}
	if _, err := qs.file.WriteAt(b, qs.bytes); err != nil {
		return noRoom(err)
	}
	r.blocks = append(r.blocks, qs.bytes)
	qs.bytes += int64(len(b))
	r.filled = r.filled[:0]
	return nil
}

func noRoom(err error) error { return errors.Join(traceread.ErrNoRoom, err) }

// Close deletes the temporary file.
func (qs *Questions) Close() error {
	if qs.file == nil {
		return nil
	}
	return qs.file.Close()
}

// gpus returns the numbers of the GPUs, in ascending order.
func (qs *Questions) gpus() (all []int64) {
	for id := range qs.byGPU {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// rewind begins to read the questions in the order of their begins.
func (qs *Questions) rewind() (*asked, error) {
	a := &asked{}
	for _, id := range qs.gpus() {
		r := qs.byGPU[id]
		r.reader = bufio.NewReaderSize(r.source(qs.file), 1<<14)
		if err := r.advance(); err != nil {
			return nil, err
		}
		if r.more {
			a.runs = append(a.runs, r)
		}
	}
	return a, nil
}

// source returns the words of all questions: those of the file, then those in memory.
func (r *run) source(f *os.File) io.Reader {
	var parts []io.Reader
	for _, at := range r.blocks {
		parts = append(parts, io.NewSectionReader(f, at, blockQuestions*questionWords*8))
	}
	return io.MultiReader(append(parts, &memory{questions: r.filled})...)
}

func (r *run) advance() error {
	var b [questionWords * 8]byte
	switch _, err := io.ReadFull(r.reader, b[:]); {
	case errors.Is(err, io.EOF):
		r.more = false
		return nil
	case err != nil:
		return err
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[i*8:])) }
	r.next, r.more = Question{word(0), word(1), traceread.Span{BeginNS: word(2), EndNS: word(3)}, word(4)}, true
	return nil
}

// memory reads questions as their words.
type memory struct {
	questions []Question
	rest      []byte
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		if len(m.questions) == 0 {
			return 0, io.EOF
		}
		for _, w := range m.questions[0].words() {
			m.rest = binary.LittleEndian.AppendUint64(m.rest, uint64(w))
		}
		m.questions = m.questions[1:]
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// asked yields the questions of all GPUs in the order of their begins. A machine has few GPUs, so it
// looks at all of them each time.
type asked struct{ runs []*run }

// nextNS returns the begin of the next question; LatestNS + 1 if there is none.
func (a *asked) nextNS() int64 {
	if r := a.first(); r != nil {
		return r.next.BeginNS
	}
	return traceread.LatestNS + 1
}

func (a *asked) first() *run {
	if len(a.runs) == 0 {
		return nil
	}
	return slices.MinFunc(a.runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.next.BeginNS, b.next.BeginNS), cmp.Compare(a.next.GPU, b.next.GPU))
	})
}

// take returns the next question, which there must be.
func (a *asked) take() (Question, error) {
	r := a.first()
	q := r.next
	err := r.advance()
	if !r.more {
		a.runs = slices.DeleteFunc(a.runs, func(one *run) bool { return one == r })
	}
	return q, err
}
