//go:build linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports on the first address of the cluster's network. Below the range that the
// system gives to clients, so nothing else takes them on an address that nobody else uses.
const (
	etcdPort       = 2379
	etcdPeerPort   = 2380
	apiPort        = 6443
	kubeletPort    = 10250
	controllerPort = 10257
	schedulerPort  = 10259
)

// claimNetwork finds three numbers of 127.0.0.0/8 that no other cluster of this
// machine has, and holds them by listening on the kubelet's port.
func claimNetwork() (network string, l net.Listener, err error) {
	for range 100 {
		network = fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), 1+rand.IntN(254))
		if l, err = net.Listen("tcp4", fmt.Sprintf("%s.1:%d", network, kubeletPort)); err == nil {
			return network, l, nil
		}
	}
	return "", nil, fmt.Errorf("no free network in 127.0.0.0/8: %w", err)
}

func (c *Cluster) address(port int) string { return fmt.Sprintf("%s.1:%d", c.network, port) }
func (c *Cluster) host() string            { return c.network + ".1" }
