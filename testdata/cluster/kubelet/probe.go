//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe watches a process with the container's probes until ctx ends: startup
// first, then readiness and liveness.
func (c *container) probe(ctx context.Context, proc *process) {
	go func() {
		if c.spec.StartupProbe != nil {
			if !c.watch(ctx, "Startup", c.spec.StartupProbe, proc, func(ok bool) bool { return ok }) {
				return
			}
			c.p.update(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
		}
		if c.spec.LivenessProbe != nil {
			go c.watch(ctx, "Liveness", c.spec.LivenessProbe, proc, func(bool) bool { return false })
		}
		if c.spec.ReadinessProbe != nil {
			c.watch(ctx, "Readiness", c.spec.ReadinessProbe, proc, func(ok bool) bool {
				c.p.update(func() { c.ready = ok && ctx.Err() == nil })
				return false
			})
		}
	}()
}

// watch probes again and again; result is told of each change of mind and says
// whether that is all. A startup or liveness probe that fails too often ends the process.
func (c *container) watch(ctx context.Context, kind string, p *corev1.Probe, proc *process, result func(ok bool) bool) bool {
	if !pause(ctx, p.InitialDelaySeconds) {
		return false
	}
	good, bad := int32(0), int32(0)
	for {
		err := c.try(ctx, p, proc)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			good, bad = good+1, 0
			if good == max(p.SuccessThreshold, 1) && result(true) {
				return true
			}
		} else {
			good, bad = 0, bad+1
			c.p.event(corev1.EventTypeWarning, "Unhealthy", "%s probe failed: %v", kind, err)
			if bad == max(p.FailureThreshold, 1) && c.tooOften(ctx, kind, p, proc, result) {
				return false
			}
		}
		if !pause(ctx, max(p.PeriodSeconds, 1)) {
			return false
		}
	}
}

func (c *container) tooOften(ctx context.Context, kind string, p *corev1.Probe, proc *process, result func(ok bool) bool) bool {
	if kind == "Readiness" {
		result(false)
		return false
	}
	c.p.event(corev1.EventTypeNormal, "Killing", "Container %s failed %s probe, will be restarted", c.spec.Name, strings.ToLower(kind))
	wait := grace(c.p.api)
	if p.TerminationGracePeriodSeconds != nil {
		wait = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	end := time.Now().Add(wait)
	proc.stop(func() time.Time { return end })
	return true
}

func pause(ctx context.Context, seconds int32) bool {
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// try probes once.
func (c *container) try(ctx context.Context, p *corev1.Probe, proc *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case p.HTTPGet != nil:
		return c.tryHTTP(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(c.p.ip, c.port(p.TCPSocket.Port)))
		if err == nil {
			_ = conn.Close()
		}
		return err
	case p.Exec != nil:
		return c.tryExec(ctx, p.Exec.Command, proc)
	}
	return fmt.Errorf("the test kubelet does not know probes of this kind")
}

func (c *container) tryHTTP(ctx context.Context, get *corev1.HTTPGetAction) error {
	if get.Scheme == corev1.URISchemeHTTPS {
		return fmt.Errorf("the test kubelet does not probe by https")
	}
	host := c.p.ip
	if get.Host != "" {
		host = get.Host
	}
	url := "http://" + net.JoinHostPort(host, c.port(get.Port)) + "/" + strings.TrimPrefix(get.Path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for _, h := range get.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	res, err := probes.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", res.StatusCode)
	}
	return nil
}

// probes makes a connection for each request, as a real kubelet does.
var probes = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (c *container) tryExec(ctx context.Context, argv []string, proc *process) error {
	var text strings.Builder
	code, err := execIn(ctx, c.beside(argv, proc), nil, &text, io.Discard)
	if err == nil && code != 0 {
		err = fmt.Errorf("command %q exited with %d: %s", argv, code, strings.TrimSpace(text.String()))
	}
	return err
}

// beside is a further command in the surroundings of a container's process.
func (c *container) beside(argv []string, proc *process) command {
	image, _ := c.p.k.image(c.spec.Image)
	paths, _ := c.paths(image)
	out := command{env: proc.env, dir: proc.dir, mark: proc.mark}
	for _, a := range argv {
		out.argv = append(out.argv, paths.rewrite(a))
	}
	return out
}

// port is a number, or the name of one of the container's ports.
func (c *container) port(p intstr.IntOrString) string {
	if p.Type == intstr.String {
		for _, named := range c.spec.Ports {
			if named.Name == p.StrVal {
				return fmt.Sprint(named.ContainerPort)
			}
		}
	}
	return p.String()
}
