// A driver needs these and no second dependency.
export {
  type ErrorCode,
  fromSystemError,
  isNexusError,
  NexusError,
  type NexusErrorOptions,
  systemCode,
} from '@nexus/errors'
export type { Clock, TimerHandle } from './clock.ts'
export { systemClock } from './clock.ts'
export { configError, objectStoreConfig, type ObjectStoreConfig } from './config.ts'
export { DEFAULT_DEADLINES, type Deadlines } from './deadlines.ts'
export { Destination, safeDestination } from './destination.ts'
export type { Backend, ByteRange, ErrorClass, ObjectInfo, OpOptions, Progress } from './driver.ts'
export {
  InvalidKeyError,
  isInvalidKeyError,
  isObjectFailure,
  ObjectFailure,
  ObjectNotFoundError,
  quoteKey,
} from './errors.ts'
export { type Download, type DownloadOptions, hydrateObjects, type HydrateOptions } from './hydrate.ts'
export { planHydration, type PlannedFile, refuseFoldedTwins } from './hydrate-plan.ts'
export {
  isFolderPlaceholder,
  joinKey,
  keyFault,
  listingPrefix,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
} from './keys.ts'
export type { Logger, LogLine } from './logger.ts'
export { type Capabilities, type ExpectedSize, ObjectStore, type ObjectStoreOptions } from './object-store.ts'
export { openObjectStore, type OpenObjectStoreOptions } from './open-object-store.ts'
export {
  booleanOption,
  integerOption,
  oneOfOption,
  OptionProblem,
  type OptionReader,
  type ParsedOptions,
  parseEndpoint,
  parseOptions,
  stringOption,
  urlOption,
} from './options.ts'
export { forEachBounded } from './pool.ts'
export { redactError, redactSecrets } from './redact.ts'
export {
  assertBackend,
  type BackendFactory,
  backends,
  open,
  type OpenOptions,
  register,
  registered,
  unregister,
} from './registry.ts'
export { replaceFile, tempName } from './replace-file.ts'
export { type CallContext, wrapError } from './wrap-error.ts'
