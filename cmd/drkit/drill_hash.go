package main

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"reflect"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/internal/service"
)

// plannedContent is everything that the hash of a plan covers: what is going to be
// done, from where to where, what it must prove and who may approve it. Machine,
// user, time, folders of runs and the ledger are not in it, so that an approver
// computes the same hash elsewhere.
type plannedContent struct {
	Format         string
	Service        string
	Mode           string
	Demo           bool
	Playbook       string // hash
	Release        string
	Source, Target any // regions as drkit.yaml has them
	Served         string
	Adapters       []string
	EngineArgs     []string
	Edge           any
	Rehearsal      any
	Traffic        any
	Objectives     any
	Waivers        any
	Live           any
	Required       int
	Self           bool
	Approvers      []string // name, account and key of each
	Patches        []string `json:",omitempty"` // of canaries on Kubernetes, by content
}

// hash covers what is going to be done and what it must prove.
func (d *drillPlan) hash(start drill.RunStarted) string {
	c := plannedContent{
		Format: "drkit.plan/1", Service: start.Service, Mode: start.Mode, Demo: start.Demo, Playbook: d.playbook.Hash(), Release: start.Release,
		Source: asWritten(d.source.region), Target: asWritten(d.target.region), Served: d.served(), EngineArgs: d.svc.Engine.Args,
		Edge: asWritten(d.svc.Edge), Rehearsal: asWritten(d.svc.Rehearsal), Traffic: asWritten(d.svc.Traffic), Objectives: asWritten(d.svc.Objectives),
		Waivers: asWritten(d.svc.Waivers), Live: asWritten(d.svc.Live), Required: d.policy.Required, Self: d.policy.Self,
	}
	c.Patches = d.patches()
	for _, a := range d.svc.Model.Adapters {
		c.Adapters = append(c.Adapters, a.Name)
	}
	for _, p := range d.policy.People {
		c.Approvers = append(c.Approvers, p.Name+" "+p.User+" "+approval.ID(p.Key))
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, numbers, lists and maps
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// asWritten turns a part of drkit.yaml into values by its keys, defaults filled in.
// A place is what was written, not the folder that it means on this machine. A field
// that is added to drkit.yaml later is covered without a change here.
func asWritten(part any) any { return written(reflect.ValueOf(part)) }

func written(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case service.Location:
		return x.Raw
	case service.Date:
		return x.UTC().String()
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return written(v.Elem())
	case reflect.Struct:
		m := map[string]any{}
		for i := range v.NumField() {
			if key := v.Type().Field(i).Tag.Get("yaml"); key != "" && key != "-" {
				m[key] = written(v.Field(i))
			}
		}
		return m
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, written(v.Index(i)))
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = written(it.Value())
		}
		return m
	}
	return v.Interface()
}
