package discover

import "testing"

func TestRankIn(t *testing.T) {
	for _, c := range []struct {
		found map[string]string
		want  int // -1: none
	}{
		{map[string]string{"RANK": "7", "SLURM_PROCID": "1"}, 7},
		{map[string]string{"SLURM_PROCID": "1"}, 1},
		{map[string]string{"RANK": "x", "PMI_RANK": "2"}, 2},
		{map[string]string{"RANK": "-1"}, -1},
		{map[string]string{"RANK": "99999999999"}, -1},
		{nil, -1},
	} {
		got := -1
		if n := rankIn(c.found, rankNames); n != nil {
			got = *n
		}
		if got != c.want {
			t.Errorf("%v: %d, want %d", c.found, got, c.want)
		}
	}
}
