import { NexusError } from '@nexus/errors'

/** A path that would leave the session tree, or can't name anything in it. Nothing was touched. Code `INVALID_ARGUMENT`. */
export class PathEscapeError extends NexusError {
  /** The path as it was given. */
  readonly path: string
  /** What is wrong with it, e.g. `holds ".."`. */
  readonly reason: string

  constructor(path: string, reason: string) {
    super('INVALID_ARGUMENT', `${JSON.stringify(path)} ${reason}: use a path inside the session, with "/"`, {
      op: 'session.path',
      key: path,
    })
    this.name = 'PathEscapeError'
    this.path = path
    this.reason = reason
  }
}
