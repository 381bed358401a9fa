// Reading what a commit of the mirror layout wrote, for tools: loads nothing that runs a session.
export type { Manifest, ManifestEntry } from './mirror/manifest/manifest.ts'
export { parseManifest } from './mirror/manifest/parse.ts'
export { parseMarker, type CommitMarker } from './mirror/marker.ts'
