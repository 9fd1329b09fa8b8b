package discover

import (
	"strconv"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Environment variables in which launchers give a process its rank: torchrun, then MPI, then
// the cluster.
var (
	rankNames = []string{
		"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "MPI_RANKID", "SLURM_PROCID",
	}
	localRankNames = []string{
		"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID",
	}
)

// RanksOf returns the global and the local rank in the target's environment; nil: none.
func RanksOf(t *target.Target) (global, local *int) {
	found, err := t.Environ(append(append([]string{}, rankNames...), localRankNames...)...)
	if err != nil {
		return nil, nil
	}
	return rankIn(found, rankNames), rankIn(found, localRankNames)
}

// RankOf returns the global rank in the target's environment, or else the local rank; nil:
// none.
func RankOf(t *target.Target) *int {
	global, local := RanksOf(t)
	if global == nil {
		return local
	}
	return global
}

// rankIn returns the value of the first of names that is a possible rank.
func rankIn(found map[string]string, names []string) *int {
	const most = 1 << 24
	for _, name := range names {
		if n, err := strconv.Atoi(found[name]); err == nil && n >= 0 && n < most {
			return &n
		}
	}
	return nil
}
