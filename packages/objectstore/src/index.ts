// What a driver implements, and finds itself by
export type { Backend, ByteRange, ErrorClass, ObjectInfo, OpOptions, Progress } from './driver.ts'
export { type BackendFactory, backends, open, type OpenOptions, register, registered, unregister } from './registry.ts'

// What the engine calls over it
export type { CallOptions } from './call/bounded-call.ts'
export { type Capabilities, type ExpectedSize, ObjectStore, type ObjectStoreOptions } from './call/object-store.ts'
export { openObjectStore, type OpenObjectStoreOptions } from './call/open-object-store.ts'
export type { Deadlines } from './call/limits.ts'

// Keys
export {
  isFolderPlaceholder,
  joinKey,
  keyFault,
  listingPrefix,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
} from './keys.ts'

// Configuration
export { configError, objectStoreConfig, type ObjectStoreConfig } from './config.ts'
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

// Hydration and local files
export { type Download, type DownloadOptions, hydrateObjects, type HydrateOptions } from './hydrate/hydrate.ts'
export { type PlannedFile, refuseFoldedTwins } from './hydrate/hydrate-plan.ts'
export { replaceFile } from './hydrate/replace-file.ts'
export { openSnapshot, type Snapshot } from './transfer/open-snapshot.ts'

// Transfers: turns, repetition, silence, progress, ranges, waiting
export { counting } from './transfer/counting.ts'
export { Attempt, type AttemptOptions } from './transfer/attempt.ts'
export { Gate } from './transfer/gate.ts'
export { Slots, type Waiter } from './transfer/slots.ts'
export { SharedWait } from './transfer/shared-wait.ts'
export { forEachBounded } from './transfer/pool.ts'
export { parseRetryAfter, retrying, type RetryOptions } from './transfer/retrying.ts'
export { monotonicProgress, type TransferProgress } from './transfer/monotonic-progress.ts'
export { rangeHeader, type ResolvedRange, resolveRange } from './transfer/range.ts'
export { decoderOf, encodingOf } from './transfer/encoding.ts'
export { pause, untilAborted } from './transfer/waiting.ts'
export { DriverCalls } from './transfer/driver-calls.ts'
export { type CreateOutcome, CreateVerdicts, PROBE_CREATES, probeConditionalCreates } from './transfer/probe-creates.ts'

// Errors, and what must not be in them
export {
  ContentEncodingError,
  InvalidKeyError,
  isInvalidKeyError,
  isObjectFailure,
  isObjectNotFound,
  ObjectFailure,
  ObjectNotFoundError,
  quoteKey,
} from './errors.ts'
export { redactError, redactSecrets } from './call/redact.ts'
export { hideSecrets } from './call/secret-values.ts'

// Of other packages: a driver needs these and no second dependency
export {
  type ErrorCode,
  fromSystemError,
  isNexusError,
  NexusError,
  type NexusErrorOptions,
  systemCode,
} from '@nexus/errors'
export { type Clock, Crc32c, type Logger, type LogLine, silentLogger, systemClock, type TimerHandle } from '@nexus/host'
