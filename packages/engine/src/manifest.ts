export { sessionKeys, type SessionKeys } from './durability/keys.ts'
export type { Manifest, ManifestEntry } from './durability/manifest.ts'
export { parseManifest } from './durability/manifest-parse.ts'
export { parseMarker, type CommitMarker } from './durability/marker.ts'
