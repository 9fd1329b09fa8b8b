package srcline

import "slices"

// Opcodes (DWARF 5, 7.22).
const (
	opCopy = iota + 1
	opAdvancePC
	opAdvanceLine
	opSetFile
	opSetColumn
	opNegateStatement
	opBasicBlock
	opConstAddPC
	opFixedAdvancePC
	opPrologueEnd
	opEpilogueBegin
	opISA

	extendedEndSequence = 1
	extendedSetAddress  = 2
)

// row is a row of the table: the code from its address up to the next row's is of its line.
type row struct {
	address, file uint64
	line          int64
}

// program runs the instructions of a unit.
type program struct {
	*search
	*header
	now, last row
	begun     bool // a sequence has a row
	isCode    bool // the sequence is
}

// run runs the instructions until they end, or the search's limit is reached.
func (p *program) run() {
	r := &reader{b: p.instructions}
	p.begin()
	for r.at < len(r.b) && !r.bad && p.spend(1) {
		op := r.u8()
		switch {
		case op >= p.opcodeBase:
			special := op - p.opcodeBase
			p.now.address += uint64(special/p.lineRange) * p.least
			p.now.line += int64(p.lineBase) + int64(special%p.lineRange)
			p.add()
		case op == 0:
			p.extended(r)
		default:
			p.standard(op, r)
		}
	}
}

func (p *program) begin() {
	p.now, p.begun = row{file: 1, line: 1}, false
}

func (p *program) standard(op uint8, r *reader) {
	switch op {
	case opCopy:
		p.add()
	case opAdvancePC:
		p.now.address += r.uleb() * p.least
	case opAdvanceLine:
		p.now.line += r.sleb()
	case opSetFile:
		p.now.file = r.uleb()
	case opConstAddPC:
		p.now.address += uint64((255-p.opcodeBase)/p.lineRange) * p.least
	case opFixedAdvancePC:
		p.now.address += r.uint(2)
	case opNegateStatement, opBasicBlock, opPrologueEnd, opEpilogueBegin:
	default: // opSetColumn, opISA, and those of later versions
		for range p.arguments[op-1] {
			r.uleb()
		}
	}
}

func (p *program) extended(r *reader) {
	b := r.take(r.uleb())
	if len(b) == 0 {
		return
	}
	switch e := (&reader{b: b[1:]}); b[0] {
	case extendedEndSequence:
		p.add()
		p.begin()
	case extendedSetAddress:
		p.now.address = e.uint(min(8, len(e.b)))
	}
}

// add adds a row, which ends the one before.
func (p *program) add() {
	if !p.begun {
		p.begun, p.isCode = true, p.code(p.now.address)
	} else if p.isCode && p.last.address < p.now.address {
		p.note(p.last, p.now.address)
	}
	p.last = p.now
}

// note notes a row for the wanted addresses in it.
func (p *program) note(r row, until uint64) {
	if r.address > p.wanted[len(p.wanted)-1] || until <= p.wanted[0] || r.line <= 0 || r.line > lineMax {
		return
	}
	i, _ := slices.BinarySearch(p.wanted, r.address)
	for ; i < len(p.wanted) && p.wanted[i] < until && p.spend(1); i++ {
		if p.found[i].line == 0 {
			p.found[i] = p.lineOf(r)
		}
	}
}

// lineOf returns a row's line with the places of its file's name.
func (p *program) lineOf(r row) (l found) {
	l.line = int(r.line)
	if r.file >= uint64(len(p.files)) {
		return l
	}
	file := p.files[r.file]
	l.parts[0] = p.copied(file.name)
	if file.directory < uint64(len(p.directories)) && (file.directory > 0 || p.version >= 5) {
		l.parts[1] = p.copied(p.directories[file.directory].name)
		if file.directory > 0 && p.version >= 5 {
			l.parts[2] = p.copied(p.directories[0].name)
		}
	}
	return l
}
