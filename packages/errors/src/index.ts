export { isNexusError, NexusError, type ErrorCode, type NexusErrorOptions } from './nexus-error.ts'
export { fromSystemError, systemCode } from './system-error.ts'
