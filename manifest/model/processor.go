package model

// Processor says which preparation of images, audio or video the repository
// describes, in files of their own or inside processor_config.json.
type Processor struct {
	Files   []string          `json:"files,omitempty"`
	Image   bool              `json:"image,omitempty"`
	Audio   bool              `json:"audio,omitempty"`
	Video   bool              `json:"video,omitempty"`
	AutoMap map[string]string `json:"auto_map,omitempty"` // code that it names, by class
}

// processor reads the processor configs. preprocessor_config.json serves for
// whatever the model takes; the two others only for what they describe.
func (r *repository) processor() {
	p := &r.facts.Processor
	for _, name := range []string{"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"} {
		if !r.has(name) {
			continue
		}
		p.Files = append(p.Files, name)
		o := r.object(name)
		for class, code := range autoMap(o) {
			if p.AutoMap == nil {
				p.AutoMap = map[string]string{}
			}
			p.AutoMap[class] = code
		}
		all := name == "preprocessor_config.json"
		p.Image = p.Image || all || o.object("image_processor") != nil
		p.Audio = p.Audio || all || o.object("feature_extractor") != nil || o.object("audio_processor") != nil
		p.Video = p.Video || all || name == "video_preprocessor_config.json" || o.object("video_processor") != nil
	}
}
