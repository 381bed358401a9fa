import type { DurabilityEvents } from '../events/table.ts'
import type { Logger } from '@nexus/host'
import type { SnapshotOutcome } from './snapshot-outcome.ts'

/** Payload of `session.snapshot.result`. */
export function snapshotResultPayload(
  sessionId: string,
  outcome: SnapshotOutcome,
): DurabilityEvents['session.snapshot.result'] {
  const { result, error, turnId } = outcome
  return {
    session_id: sessionId,
    trigger: outcome.trigger,
    sequence: outcome.sequence,
    generation: outcome.generation,
    ...(turnId === undefined ? {} : { turn_id: turnId }),
    objects: result?.objects ?? 0,
    bytes: result?.bytes ?? 0,
    objects_uploaded: result?.objectsUploaded ?? 0,
    bytes_uploaded: result?.bytesUploaded ?? 0,
    objects_skipped: result?.objectsSkipped ?? 0,
    bytes_skipped: result?.bytesSkipped ?? 0,
    db_bytes: result?.dbBytes ?? 0,
    manifest_bytes: result?.manifestBytes ?? 0,
    unstored: result?.unstored ?? [],
    duration_ms: outcome.durationMs,
    ok: error === undefined,
    ...(error === undefined ? {} : { error: error.message }),
  }
}

/** One line a snapshot: `objects` and `bytes` say how big the stored session is, `*_uploaded` what this one cost. */
export function logSnapshot(logger: Logger, sessionId: string, outcome: SnapshotOutcome): void {
  const { result, shared, error, trigger, sequence, generation, reason, durationMs } = outcome
  const about = { session_id: sessionId, trigger, ...(reason === undefined ? {} : { reason }), sequence, generation }
  if (result === undefined) {
    logger.warn({ ...about, duration: durationMs, err: error }, 'the session could not be stored')
    return
  }
  logger.info(
    {
      ...about,
      objects: result.objects,
      bytes: result.bytes,
      objects_uploaded: result.objectsUploaded,
      bytes_uploaded: result.bytesUploaded,
      objects_skipped: result.objectsSkipped,
      bytes_skipped: result.bytesSkipped,
      manifest_bytes: result.manifestBytes,
      db_bytes: result.dbBytes,
      db_duration: result.dbDurationMs,
      shared_objects: shared?.objects ?? 0,
      shared_bytes: shared?.bytes ?? 0,
      shared_db_duration: shared?.dbDurationMs ?? 0,
      duration: durationMs,
    },
    'the session is stored',
  )
  if (result.unstored.length > 0) {
    logger.warn(
      { ...about, unstored: result.unstored },
      'some local files could not be stored; their committed versions, if any, stay',
    )
  }
}
