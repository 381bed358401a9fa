export { sessionKeys, type SessionKeys } from '@nexus/durability/names'
export {
  parseManifest,
  parseMarker,
  type CommitMarker,
  type Manifest,
  type ManifestEntry,
} from '@nexus/durability/manifest'
