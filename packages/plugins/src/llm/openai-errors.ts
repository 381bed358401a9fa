import { type ErrorCode, isNexusError, NexusError } from '@nexus/engine'

/** What went wrong with a model, as a program can branch on it. The key is in no message, and what the
 * library threw, which may hold it, is no cause of it. */
export function modelError(error: unknown, apiKey: string): NexusError {
  if (isNexusError(error)) return error
  const status = statusOf(error)
  const text = error instanceof Error ? error.message : String(error)
  const detail = apiKey === '' ? text : text.replaceAll(apiKey, '[key]')
  return new NexusError(codeOf(status), `the model can't be asked: ${detail}`, { op: 'llm.request' })
}

function statusOf(error: unknown): number | undefined {
  const status: unknown = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined
  return typeof status === 'number' ? status : undefined
}

function codeOf(status: number | undefined): ErrorCode {
  if (status === 401 || status === 403) return 'PERMISSION'
  if (status === 429) return 'THROTTLED'
  if (status !== undefined && status >= 400 && status < 500 && status !== 408) return 'INVALID_ARGUMENT'
  return 'UNAVAILABLE'
}
